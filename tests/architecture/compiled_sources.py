"""The sources that a build compiles, their flags, and groups of them that a check reads as one file.

Most of the time that a compiler needs for a source goes into the headers of libraries. A file that includes twelve
sources with the same flags takes hardly longer than one of them.
"""

import json
import re
import shlex
from pathlib import Path

import recent_changes
import source_tree

GROUP_SIZE = 12
_INCLUDE = re.compile(r'^#include "(/.*)"$', re.M)
_COMPILER = re.compile(r"(\+\+|cc)(-[0-9]+)?$")
_WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-include")
_WITHOUT_VALUE = ("-c", "-MD", "-MMD", "-Winvalid-pch", "-fpch-preprocess")


def commands(build):
    """Path of each source of this repository -> its compile command as a list."""
    root, build, found = source_tree.ROOT.resolve(), Path(build).resolve(), {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        unit = Path(entry["file"]).resolve()
        # A group of sources is a file in the build folder that includes the sources.
        members = _INCLUDE.findall(unit.read_text(encoding="utf-8")) if unit.is_relative_to(build) else [unit]
        for file in map(Path, members):
            if file.is_relative_to(root) and not file.is_relative_to(build):
                found[file.relative_to(root).as_posix()] = shlex.split(entry["command"])
    return found


def compiler_of(command):
    return next(word for word in command if _COMPILER.search(word))


def flags_of(command, dropped=()):
    """The flags without compiler and launcher, input, output and precompiled header, and without those that start with a
    string of `dropped`."""
    kept, skip = [], False
    for word in command[command.index(compiler_of(command)) + 1:]:
        if skip:
            skip = False
        elif word in _WITH_VALUE:
            skip = True
        elif word not in _WITHOUT_VALUE and not word.startswith(tuple(dropped)) and not word.endswith((".cpp", ".cxx", ".o")):
            kept.append(word)
    return tuple(kept)


def group_text(group):
    """A file that includes the sources."""
    return "".join(f'#include "{source_tree.ROOT.resolve() / source}"\n' for source in group)


def _source_for(header, sources):
    """The source that shows a header's mistakes: its namesake, else the first that includes it; None if none does."""
    stem = header.rsplit(".", 1)[0]
    namesakes = (path for path in (f"{stem}.cpp", f"{stem}_test.cpp") if path in sources)
    users = (path for path in sources if header in source_tree.closure(path))
    return next(namesakes, None) or next(users, None)


def _ages_of(sources):
    """Source -> age of the newest change of it or of a header that it stands for."""
    found = {}
    for path, age in recent_changes.ages().items():
        if path.endswith((".h", ".inl")):
            path = _source_for(path, sources)
        if path in sources:
            found[path] = min(age, found.get(path, age))
    return found


def _kind(source):
    """Sources of one kind can be read as one file: the build groups them too, so their names do not clash. Each program
    outside of src has names of its own."""
    folder = source.rsplit("/", 1)[0]
    return (folder, source.endswith("_test.cpp")) if source.startswith("src/") else source


def _fill(groups, ordered, flags, limit):
    """Puts each source into the last group of its kind and flags, or into a new one while there are fewer than `limit`."""
    for source in ordered:
        group = next((group for group in reversed(groups)
                      if flags[group[0]] == flags[source] and _kind(group[0]) == _kind(source)), None)
        if group is not None and len(group) < GROUP_SIZE:
            group.append(source)
        elif len(groups) < limit:
            groups.append([source])


def groups_of_all(unseen, flags):
    """All of them, in groups with equal flags and of one kind; `flags` has the flags of every source."""
    groups = []
    _fill(groups, unseen, flags, len(unseen))
    return groups


def groups_of_newest(unseen, flags, limit):
    """At most `limit` groups with sources that changed lately, newest first."""
    groups, age = [], _ages_of(sorted(flags))
    _fill(groups, sorted((source for source in unseen if source in age), key=lambda source: (age[source], source)), flags, limit)
    return groups
