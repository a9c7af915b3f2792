"""Limits the number of files behind the public headers and the longest chain of includes."""

import functools
import unittest

import source_tree

MAX_FILES_BEHIND_LLM = 27
MAX_CHAIN = 14


@functools.cache
def own_includes(path):
    names = source_tree.includes(source_tree.read(path))
    paths = ("src/" + name for name in names if name.startswith("reprise/"))
    return [path for path in paths if (source_tree.ROOT / path).exists()]


def behind(path):
    """Files of this project that `path` includes, directly or through others."""
    seen, waiting = set(), [path]
    while waiting:
        for included in own_includes(waiting.pop()):
            if included not in seen:
                seen.add(included)
                waiting.append(included)
    return seen


@functools.cache
def longest_chain(path):
    """The files of the longest chain of includes that begins with `path`."""
    return [path] + max((longest_chain(included) for included in own_includes(path)), key=len, default=[])


class IncludeGraph(unittest.TestCase):
    def test_the_public_api_brings_few_files(self):
        found = behind("src/reprise/api/llm.h")
        self.assertGreater(len(found), 10, "the test looks into the wrong folder")
        self.assertLessEqual(len(found), MAX_FILES_BEHIND_LLM, "\n" + "\n".join(sorted(found)))

    def test_no_chain_of_includes_is_long(self):
        for path in source_tree.code_files():
            chain = longest_chain(path)
            self.assertLessEqual(len(chain), MAX_CHAIN, "\n" + "\n".join(chain))


if __name__ == "__main__":
    unittest.main()
