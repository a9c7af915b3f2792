"""Which files changed lately. Checks that are too slow for every file start with these."""

import subprocess

import source_tree

NUM_COMMITS = 20


def _git(*arguments):
    """The output's lines; none without git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=source_tree.ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def ages():
    """Path -> 0 if the file is not committed as it is, n if the n-th newest commit changed it last. Holds only the files
    that the newest NUM_COMMITS commits changed, and none without git."""
    found = dict.fromkeys(_git("ls-files", "--others", "--exclude-standard") + _git("diff", "--name-only", "HEAD"), 0)
    age = 0
    for line in _git("log", "--name-only", "--format=commit %h", f"-{NUM_COMMITS}"):
        if line.startswith("commit "):
            age += 1
        elif line:
            found.setdefault(line, age)
    return found


def number_of_commits():
    """Grows with every commit, so that a check of one part of the files takes another part next time."""
    return int("".join(_git("rev-list", "--count", "HEAD")) or 0)
