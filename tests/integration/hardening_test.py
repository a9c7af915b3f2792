#!/usr/bin/env python3
"""The built program has the mitigations that cmake/Reprise.cmake asks for: read from its ELF file.

    hardening_test.py REPRISE_BINARY MODEL_FOLDER [--cet]

--cet: the compiler has -fcf-protection. Needs readelf, which every compiler brings along.
"""

import re
import subprocess
import sys
import unittest

BINARY = None
HAS_CET = False


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, BINARY], capture_output=True, text=True, check=True).stdout


class Hardening(unittest.TestCase):
    def test_addresses_are_random_and_tables_of_addresses_are_read_only(self):
        self.assertRegex(readelf("-h"), r"Type:\s+DYN")
        segments = readelf("-l")
        self.assertIn("GNU_RELRO", segments)
        stack = re.search(r"GNU_STACK.*", segments)
        self.assertIsNotNone(stack)
        self.assertNotIn("RWE", stack[0])
        # Without immediate binding, a part of these tables stays writable.
        self.assertRegex(readelf("-d"), r"FLAGS_1.*NOW")

    def test_calls_into_the_c_library_are_checked(self):
        imported = {line.split()[-1].split("@")[0] if "(" not in line else line.split()[-2].split("@")[0]
                    for line in readelf("--dyn-syms").splitlines() if " UND " in line and len(line.split()) > 7}
        self.assertIn("__stack_chk_fail", imported)
        self.assertTrue({"__memcpy_chk", "__snprintf_chk", "__read_chk", "__vsnprintf_chk"} & imported, imported)
        self.assertFalse({"gets", "sprintf", "vsprintf"} & imported)

    def test_indirect_jumps_and_returns_are_protected(self):
        if not HAS_CET:
            self.skipTest("the compiler has no -fcf-protection")
        # One object file without the marks removes them from the whole program, so the test counts their effects.
        landing_pads = readelf("--hex-dump=.text").count("f30f1efa")
        self.assertGreater(landing_pads, 1000)


if __name__ == "__main__":
    HAS_CET = "--cet" in sys.argv
    BINARY = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
