"""No case is lost: not of suites that take turns, which run all within as many commits as they have parts, and not of
binaries that several tests of ctest share. The longest tests start first.

usage: turns_test.py CTEST BUILD_FOLDER SOURCE_FOLDER
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

CTEST, BUILD, SOURCE = sys.argv.pop(1), sys.argv.pop(1), Path(sys.argv.pop(1))
TURN = "REPRISE_TEST_TURN"
MOST_PARTS = 5  # commits until all has run


def described(turn=None):
    """Name -> (command, properties) of the tests that ctest has in a turn."""
    environment = {name: value for name, value in os.environ.items() if name != TURN}
    if turn is not None:
        environment[TURN] = str(turn)
    done = subprocess.run([CTEST, "--test-dir", BUILD, "--show-only=json-v1"], env=environment, capture_output=True, text=True,
                          check=True)
    return {test["name"]: (test.get("command"), {entry["name"]: entry["value"] for entry in test.get("properties", [])})
            for test in json.loads(done.stdout)["tests"]}


def tests(turn=None):
    """Name -> command and variables of the tests that ctest has in a turn."""
    return {name: (command, dict(variable.split("=", 1) for variable in properties.get("ENVIRONMENT", [])))
            for name, (command, properties) in described(turn).items()}


def parts(turn):
    """Name -> (part, number of parts) of the tests that have them."""
    return {name: (int(variables["GTEST_SHARD_INDEX"]), int(variables["GTEST_TOTAL_SHARDS"]))
            for name, (_, variables) in tests(turn).items() if "GTEST_TOTAL_SHARDS" in variables}


def cases(command, variables):
    """The names of the cases that a suite would run; None if it is not built."""
    if not Path(command[0]).exists():
        return None
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}, **variables}
    done = subprocess.run([*command, "--gtest_list_tests"], env=environment, capture_output=True, text=True, check=True)
    suite, found = "", set()
    for line in done.stdout.splitlines():
        if line.startswith("  "):
            found.add(suite + line.split("#")[0].strip())
        elif re.match(r"\S+\.(\s|$)", line):
            suite = line.split()[0]
    return found


class Turns(unittest.TestCase):
    def test_without_a_turn_every_suite_runs_whole(self):
        self.assertEqual([name for name, (_, variables) in tests().items() if "GTEST_TOTAL_SHARDS" in variables], [])

    def test_every_part_has_its_turn_once(self):
        turns = [parts(turn) for turn in range(600, 600 + MOST_PARTS)]
        self.assertTrue(turns[0])
        for name, (_, num_parts) in turns[0].items():
            with self.subTest(suite=name):
                self.assertIn(num_parts, range(2, MOST_PARTS + 1))
                self.assertEqual(sorted(turn[name] for turn in turns[:num_parts]), [(part, num_parts) for part in range(num_parts)])
                self.assertEqual({turn[name][1] for turn in turns}, {num_parts})

    def test_the_cases_that_always_run_exist_and_belong_to_a_suite_that_takes_turns(self):
        found = tests(0)
        for name, (command, _) in found.items():
            suite = name.removesuffix("_always")
            if suite == name:
                continue
            with self.subTest(suite=suite):
                self.assertIn("GTEST_TOTAL_SHARDS", found[suite][1])
                always, all_cases = cases(command, {}), cases(command[:1], {})
                if all_cases is not None:
                    self.assertTrue(always)
                    self.assertLess(len(always), len(all_cases) / 4)

    def test_a_script_divides_its_cases_and_repeats_those_of_every_time(self):
        text = ("import unittest\nfrom in_turn import every_time, load_tests\nclass A(unittest.TestCase):\n"
                + "".join(f"    def test_{i}(self): print('case', {i})\n" for i in range(5))
                + "    @every_time\n    def test_5(self): print('case', 5)\nunittest.main()\n")

        loops = subprocess.run([sys.executable, "-B", "-c", "from in_turn import part_of; print(part_of(iter('abcdefg')))"],
                               cwd=SOURCE / "tests" / "integration", capture_output=True, text=True, check=True,
                               env={**os.environ, "GTEST_TOTAL_SHARDS": "3", "GTEST_SHARD_INDEX": "1"})
        self.assertEqual(loops.stdout, "['b', 'e']\n")

        def run(*names, **variables):
            done = subprocess.run([sys.executable, "-B", "-c", text, *names], cwd=SOURCE / "tests" / "integration",
                                  env={**os.environ, **variables}, capture_output=True, text=True, check=True)
            return re.findall(r"case (\d)", done.stdout)

        self.assertEqual(run(), list("012345"))
        turns = [run(GTEST_TOTAL_SHARDS="2", GTEST_SHARD_INDEX=str(part)) for part in range(2)]
        self.assertEqual(turns, [list("0245"), list("135")])
        self.assertEqual(run("A.test_1", GTEST_TOTAL_SHARDS="2", GTEST_SHARD_INDEX="0"), ["1"])


class Order(unittest.TestCase):
    def test_the_longest_tests_start_first_with_and_without_a_turn(self):
        text = (SOURCE / "tests/turns/CMakeLists.txt").read_text()
        long_tests = re.search(r"set\(long_tests(.*?)\)", text, re.S)[1].split()
        for turn in (None, 0):
            found = described(turn)
            costs = [found[name][1].get("COST") for name in long_tests if name in found]
            self.assertGreater(len(costs), 10)
            self.assertNotIn(None, costs)
            self.assertEqual(costs, sorted(costs, reverse=True))
        declared = "".join(path.read_text() for folder in ("src", "tests", "benchmarks") for path in (SOURCE / folder).rglob("CMakeLists.txt"))
        for name in long_tests:
            self.assertRegex(declared, rf"(NAME|cli_test_of\() *{name.removeprefix('architecture_')}\b|NAME {name}\b")


class Mutants(unittest.TestCase):
    def test_each_has_its_turn_once_and_the_turns_take_about_equally_long(self):
        sys.path.insert(0, str(SOURCE / "tests" / "mutants"))
        import run_mutants

        mutants = json.loads((SOURCE / "tests/mutants/mutants.json").read_text())
        parts = run_mutants.parts_of(mutants, 120)
        self.assertEqual(sorted(mutant["id"] for part in parts for mutant in part), sorted(mutant["id"] for mutant in mutants))
        self.assertTrue(all(parts))
        large = [sum("host_kernels" in file for mutant in part for file in mutant["compile"]) for part in parts]
        self.assertEqual(max(large), 1, "a turn compiles the GPU kernels for more than one mutant")


class SharedBinaries(unittest.TestCase):
    def test_each_case_belongs_to_one_test_of_ctest(self):
        commands = [command for command, _ in tests().values() if command and command[1:] and command[1].startswith("--files=")]
        self.assertTrue(commands)
        for binary in {command[0] for command in commands}:
            with self.subTest(binary=Path(binary).name):
                all_cases = cases([binary], {})
                if all_cases is None:
                    continue
                shares = [cases(command, {}) for command in commands if command[0] == binary]
                self.assertTrue(all(shares))
                self.assertEqual(sum(map(len, shares)), len(all_cases))
                self.assertEqual(set().union(*shares), all_cases)
                done = subprocess.run([binary, "--files=nothing_test.cpp"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("no case of this binary is defined in 'nothing_test.cpp'", done.stderr)


if __name__ == "__main__":
    unittest.main()
