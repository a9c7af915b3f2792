#!/usr/bin/env python3
"""Every build option is documented, and builds with other values than the usual ones configure.

    build_options_test.py CMAKE SOURCES COMPILER PYTHON

Where sources depend on an option, the compiler also reads some of them (`-fsyntax-only`). PYTHON is an interpreter with
nanobind, or empty. Uses only Python's standard library.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE = COMPILER = PYTHON = SOURCES = None
PAGE = "docs/howto/install.md"
# A build without any optional part; each configuration below changes some of these options.
LEAST = dict.fromkeys(("REPRISE_BUILD_TESTS", "REPRISE_BUILD_EXAMPLES", "REPRISE_BUILD_BENCHMARKS", "REPRISE_MPI", "REPRISE_LLVM",
                       "REPRISE_CUDA"), "OFF")
# Name -> options, and a pattern of the sources that the compiler reads.
CONFIGURATIONS = {
    "least": ({"REPRISE_UNITY": "OFF", "REPRISE_PCH": "OFF", "REPRISE_WERROR": "OFF", "REPRISE_HARDEN": "OFF",
               "REPRISE_INSTALL": "OFF", "REPRISE_DOWNLOADS": "/nowhere", "REPRISE_FAST_COMPILE_OTHER_CPUS": "ON"}, r"/base/(json|error)\.cpp$"),
    "graph layer": ({"REPRISE_FOLDERS": "base;device;tensor;cudagraph", "REPRISE_SANITIZE": "address,undefined",
                     "REPRISE_PCH": "OFF"}, r"reprise_cudagraph_dispatch.*unity_0"),
    "threads": ({"REPRISE_FOLDERS": "base;device", "REPRISE_SANITIZE": "thread", "REPRISE_PCH": "OFF"}, None),
    "fuzzers": ({"REPRISE_BUILD_TESTS": "ON", "REPRISE_BUILD_FUZZERS": "ON", "REPRISE_PCH": "OFF"}, r"/json_fuzz\.dir/"),
}
# This configuration needs a CUDA toolkit: only nvcc reads FlashInfer's headers.
FLASHINFER = ({"REPRISE_CUDA": "ON", "REPRISE_CUDA_ARCHITECTURES": "90a", "REPRISE_CUDA_FAST_COMPILE": "ON",
               "REPRISE_FLASHINFER": "/nowhere",
               "REPRISE_FOLDERS": "base;parallel;device;tensor;kernels", "REPRISE_PCH": "OFF"}, r"reprise_kernels_cuda.*unity_\d")
NEEDS_PYTHON = {"REPRISE_BUILD_PYTHON": "ON", "REPRISE_PCH": "OFF"}


def text_of(pattern):
    files = (path for path in sorted(SOURCES.glob(pattern)) if path.is_file() and path.relative_to(SOURCES).parts[0] != "build")
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


class BuildOptions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reprise_options_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def configure(self, options):
        """None, or what CMake says."""
        done = subprocess.run([CMAKE, "-S", SOURCES, "-B", self.folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                               f"-DCMAKE_CXX_COMPILER={COMPILER}",
                               *(f"-D{name}={value}" for name, value in (LEAST | options).items())],
                              capture_output=True, text=True, check=False)
        unused = [name for name in options if re.search(rf"^    {name}$", done.stderr, re.M)]
        return done.stderr if done.returncode != 0 else unused and f"these options were not used: {unused}" or None

    def read_sources(self, pattern):
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        chosen = [entry for entry in entries if re.search(pattern, entry["file"])]
        self.assertTrue(chosen, f"no source of this build matches {pattern}")
        for entry in chosen:
            command = shlex.split(entry["command"])
            command = command[command.index(COMPILER):]
            done = subprocess.run([*command, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[:3000])

    def check_levels_of_kernels(self, options):
        """-O1 for the instruction sets that this processor lacks, if that is wanted; -O3 for all others."""
        cpu = Path("/proc/cpuinfo")
        if not cpu.exists():
            return
        processor = cpu.read_text(encoding="utf-8").split()
        flags = {"avx2": "avx2", "avx512": "avx512f", "avx512_vnni": "avx512_vnni", "avx512_bf16": "avx512_bf16", "amx": "amx_tile"}
        entries = json.loads((self.folder / "compile_commands.json").read_text(encoding="utf-8"))
        commands = {Path(entry["file"]).stem: entry["command"] for entry in entries if "/kernels/isa/" in entry["file"]}
        for isa in flags.keys() & commands.keys():
            is_fast = options.get("REPRISE_FAST_COMPILE_OTHER_CPUS") == "ON" and flags[isa] not in processor
            self.assertEqual(re.findall(r" (-O\w)", commands[isa])[-1], "-O1" if is_fast else "-O3", isa)

    def test_documented_options_are_those_that_exist(self):
        cmake = text_of("CMakeLists.txt") + text_of("cmake/*.cmake") + text_of("src/**/CMakeLists.txt") + text_of("tests/**/CMakeLists.txt")
        exist = set(re.findall(r"(?:option\(|set\()(REPRISE_\w+)[^\n)]* (?:CACHE|\"[^\n]*\" (?:ON|OFF|\$))", cmake))
        documented = set(re.findall(r"REPRISE_[A-Z_]+", "\n".join(re.findall(r"^\| (`REPRISE_[^|]*)\|", (SOURCES / PAGE).read_text(), re.M))))
        self.assertEqual(exist, documented)
        elsewhere = set(re.findall(r"-D(REPRISE_[A-Z_]+)", text_of("docs/**/*.md") + text_of("*.md") + text_of("scripts/*.sh") + text_of("deploy/*")))
        self.assertEqual(elsewhere - exist, set())
        configured = set(LEAST) | set(FLASHINFER[0]) | set(NEEDS_PYTHON)
        for options, _ in CONFIGURATIONS.values():
            configured |= set(options)
        self.assertEqual(exist - configured, set(), "this test configures no build with these options")

    def test_builds_configure(self):
        for name, (options, sources) in CONFIGURATIONS.items():
            with self.subTest(name):
                self.setUp()
                self.assertIsNone(self.configure(options))
                if "REPRISE_SANITIZE" not in options:
                    self.check_levels_of_kernels(options)
                if sources:
                    self.read_sources(sources)

    def test_flashinfer_goes_into_the_plugin_for_cuda(self):
        options, sources = FLASHINFER
        complaint = self.configure(options)
        if complaint and "no CUDA 13 or newer toolkit" in complaint:
            self.skipTest("no CUDA toolkit")
        self.assertIsNone(complaint)
        self.read_sources(sources)

    def test_the_python_module_configures(self):
        if not PYTHON or subprocess.run([PYTHON, "-c", "import nanobind"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no Python with nanobind")
        self.assertIsNone(self.configure(NEEDS_PYTHON | {"Python_EXECUTABLE": PYTHON}))


if __name__ == "__main__":
    CMAKE, SOURCES, COMPILER, PYTHON = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
