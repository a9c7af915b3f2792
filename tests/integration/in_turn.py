"""Divides a suite of Python into parts, of which one runs at a time: cli_test_of(... IN_TURN n) in CMakeLists.txt.

A script takes part by importing load_tests from here, which unittest.main() then finds in the script, or by looping over
part_of(...). The number of parts and the part come in the variables that do the same for GoogleTest. Without them, or when
tests are named and no loop is divided, all run.
"""

import os
import unittest


def turn():
    """(number of parts, part of this run)."""
    return int(os.environ.get("GTEST_TOTAL_SHARDS", 1)), int(os.environ.get("GTEST_SHARD_INDEX", 0))


def part_of(items):
    """The items of a test's loop that this run has: of the names of a dictionary too. In the order of all items."""
    num_parts, part = turn()
    return list(items)[part::num_parts]


def every_time(test):
    """Decorator of a function of a test that runs with every part."""
    test.runs_every_time = True
    return test


def load_tests(loader, tests, pattern):
    """The protocol of unittest: returns the tests to run, of all tests of the script."""
    num_parts, part = turn()
    cases = [case for suite in tests for case in suite]

    def is_always_run(case):
        return hasattr(getattr(case, case.id().rsplit(".", 1)[1]), "runs_every_time")

    in_turn = [case for case in cases if not is_always_run(case)]
    chosen = set(map(id, in_turn[part::num_parts]))
    return unittest.TestSuite(case for case in cases if is_always_run(case) or id(case) in chosen)
