"""Tests what packages have inside: the program with the libraries that it needs, in a folder that can be moved.

usage: package_test.py BUILD_FOLDER

scripts/test_packages.sh tries the packages themselves on bare systems; this test needs neither rights nor a network.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1))
SOURCE = Path(__file__).resolve().parents[2]
# Libraries that every system with a package manager has; the package never contains these.
OF_THE_SYSTEM = {"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}
# The newest versions that Ubuntu 22.04 and Debian 12 both have: what docs/howto/install.md promises.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
OLDEST_SYSTEM = 'VERSION_ID="12"'


def output(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise-package-"))
        installed = cls.folder / "installed"
        text = (BUILD / "CPackConfig.cmake").read_text()
        for component in re.search(r'set\(CPACK_COMPONENTS_ALL "([^"]+)"', text)[1].split(";"):
            output("cmake", "--install", BUILD, "--prefix", installed, "--component", component)
        # The package works wherever a user unpacks it.
        cls.root = installed.rename(cls.folder / "moved to a name with spaces")
        cls.binaries = [path for path in cls.root.rglob("*")
                        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]
        cls.environment = {"PATH": "/usr/bin:/bin", "HOME": str(cls.folder)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def needed(self, path):
        return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)))

    def test_every_library_is_packed_or_on_every_system(self):
        packed = {path.name for path in (self.root / "lib/reprise").iterdir()}
        self.assertGreater(len(packed), 5)
        for path in self.binaries:
            if path.name == "reprise_mpi.so":  # the machine's Open MPI, if there is one
                continue
            missing = self.needed(path) - OF_THE_SYSTEM - packed
            self.assertFalse(missing, f"{path.name} needs {missing}")
        self.assertFalse(packed & OF_THE_SYSTEM, "two of these in one process do not get on")

    def test_the_packed_libraries_are_those_that_are_loaded(self):
        for name in ("bin/reprise", "lib/reprise_codegen_llvm.so", "lib/reprise_cuda.so"):
            if not (self.root / name).exists():
                continue
            for library, path in re.findall(r"(\S+) => (.*) \(0x", output("ldd", self.root / name, env=self.environment)):
                inside = Path(os.path.normpath(path)).is_relative_to(self.root)
                self.assertEqual(inside, library not in OF_THE_SYSTEM, f"{name}: {library} => {path}")

    def test_what_is_needed_is_as_old_as_promised(self):
        if OLDEST_SYSTEM not in Path("/etc/os-release").read_text():
            self.skipTest("packages are made on Debian 12")
        for path in self.binaries:
            for kind, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", output("objdump", "-T", path)):
                self.assertLessEqual(tuple(map(int, version.split("."))), NEWEST[kind], f"{path.name}: {kind}_{version}")

    def test_it_runs_where_it_was_unpacked(self):
        model = self.root / "share/reprise/models/reprise-tiny"
        words = [self.root / "bin/reprise", "generate", model, "--prompt", "Once upon a time", "--max-tokens", "8"]
        if (self.root / "lib/reprise_codegen_llvm.so").exists():
            words += ["--compilation-config.backend", "inductor", "--disable-compile-cache"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, cwd=self.folder,
                              env=self.environment)
        self.assertTrue(done.stdout.startswith("Once upon a time"), done.stdout)
        # The packed program must have graphs: llamafile#1051 shipped programs without graphs, and no test noticed.
        self.assertRegex(done.stderr, r"replayed FULL [1-9]\d*, PIECEWISE \d+, eager 0 steps")

    def test_manuals_and_completions_are_those_of_the_program(self):
        program = self.root / "bin/reprise"
        share = self.root / "share"
        for command in ("serve", "bench modes"):
            page = share / f"man/man1/reprise-{command.replace(' ', '-')}.1"
            self.assertEqual(output(program, "man", *command.split(), env=self.environment), page.read_text())
        for shell, file in {"bash": "bash-completion/completions/reprise", "zsh": "zsh/site-functions/_reprise",
                            "fish": "fish/vendor_completions.d/reprise.fish"}.items():
            self.assertEqual(output(program, "completion", shell, env=self.environment), (share / file).read_text())
        commands = re.findall(r"^  ([a-z][a-z-]+) +\S", output(program, "--help", env=self.environment), re.M)
        self.assertGreater(len(commands), 10)
        for command in commands:
            self.assertTrue((share / f"man/man1/reprise-{command}.1").exists(), command)


class Wheel(unittest.TestCase):
    """The wheel, installed by pip into a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cache = (BUILD / "CMakeCache.txt").read_text()
        found = re.search(r"^Python_EXECUTABLE:\w+=(.+)$", cache, re.M)
        if not found or not list((BUILD / "python/reprise").glob("_core*.so")):
            raise unittest.SkipTest("built without the Python module")
        cls.python = found[1]
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise-wheel-"))
        wheel = output(cls.python, "-B", SOURCE / "tools/make_wheel.py", BUILD, cls.folder).strip()
        cls.root = cls.folder / "installed here"
        output(cls.python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", cls.root, wheel)
        cls.environment = {"PATH": "/usr/bin:/bin", "HOME": str(cls.folder), "PYTHONPATH": str(cls.root)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_every_library_is_inside_or_on_every_system(self):
        package = self.root / "reprise"
        binaries = [package / "bin/reprise", *package.glob("_core*.so"), *package.glob("lib/*.so")]
        self.assertGreater(len(binaries), 1)
        for path in binaries:
            for library, found in re.findall(r"(\S+) => (.*) \(0x", output("ldd", path, env=self.environment)):
                inside = Path(os.path.normpath(found)).is_relative_to(self.root)
                self.assertEqual(inside, library not in OF_THE_SYSTEM, f"{path.name}: {library} => {found}")
            self.assertNotIn("not found", output("ldd", path, env=self.environment))

    def test_the_command_is_the_native_program(self):
        command = self.root / "bin/reprise"
        self.assertIn("0.", output(self.python, command, "--version", env=self.environment))
        text = output(self.python, command, "generate", self.root / "reprise/share/reprise/models/reprise-tiny", "--prompt",
                      "Once upon a time", "--max-tokens", "8", env=self.environment)
        self.assertTrue(text.startswith("Once upon a time"), text)
        refused = subprocess.run([self.python, command, "generate"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(refused.returncode, 2, "the exit code is the program's")

    def test_the_module_answers_and_finds_its_plug_ins(self):
        script = """
import sys
from reprise import LLM, SamplingParams
llm = LLM(sys.argv[1], compilation_config={"backend": "inductor"} if sys.argv[2] == "llvm" else None, disable_compile_cache=True)
print(llm.generate(["Once upon a time"], SamplingParams(max_tokens=8))[0].outputs[0].text)
"""
        has_llvm = (self.root / "reprise/lib/reprise_codegen_llvm.so").exists()
        text = output(self.python, "-c", script, self.root / "reprise/share/reprise/models/reprise-tiny", "llvm" if has_llvm else "-",
                      env=self.environment)
        self.assertTrue(text.strip())


if __name__ == "__main__":
    unittest.main()
