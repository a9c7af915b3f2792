"""Tests `cmake --install` and `find_package(Reprise)`, and what a project inherits that embeds the sources.

usage: install_test.py BUILD_FOLDER SOURCE_FOLDER
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, SOURCE = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
MODEL = str(SOURCE / "models/reprise-tiny")
HERE = Path(__file__).resolve().parent


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


class Install(unittest.TestCase):
    def test_the_target_of_the_program_builds_all_that_is_installed(self):
        # The quickstart and the pages build only this target and then install.
        built = set(run("ninja", "-C", BUILD, "-t", "inputs", "reprise").splitlines())
        # An installation leaves out libraries that have a target of their own and were not built.
        texts = [re.sub(r"file\(INSTALL[^)]* OPTIONAL [^)]*\)", "", file.read_text())
                 for file in (*BUILD.glob("src/**/cmake_install.cmake"), BUILD / "cmake_install.cmake")]
        installed = {name for text in texts for name in re.findall(r'FILES "([^"]+)"', text)}
        outputs = {str(Path(name).relative_to(BUILD)) for name in installed
                   if Path(name).is_relative_to(BUILD) and Path(name).suffix in (".so", ".a")}
        self.assertLess({"src/reprise/api/libreprise_api.a"}, outputs)
        self.assertEqual(set(), {name for name in outputs - built if not name.startswith("python/")})

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="reprise-install-"))
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_the_installed_program_runs_and_generates_code(self):
        program = self.prefix / "bin/reprise"
        self.assertIn("reprise", run(program, "--version"))
        has_llvm = (BUILD / "bin/reprise_codegen_llvm.so").exists()
        self.assertEqual(has_llvm, (self.prefix / "lib/reprise_codegen_llvm.so").exists())
        answer = run(program, "generate", MODEL, "--prompt", "Once upon a time", "--max-tokens", "8",
                     *(["--compilation-config.backend", "inductor"] if has_llvm else []), cwd=self.folder)
        self.assertTrue(answer.startswith("Once upon a time"), answer)

    def test_a_project_finds_the_package_and_links_the_engine(self):
        build = self.folder / "consumer"
        run("cmake", "-S", HERE / "consumer", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DEXAMPLES={SOURCE / 'examples'}")
        run("cmake", "--build", build)
        self.assertGreater(len(run(build / "llm_in_20_lines", MODEL)), 20)
        self.assertIn("FULL_AND_PIECEWISE", run(build / "dispatcher_only"))

    def test_c_and_python_programs_use_the_shared_library(self):
        library = self.prefix / "lib/libreprise.so"
        if not library.exists():
            self.skipTest("the target reprise_c was not built")
        flags = ["-I", self.prefix / "include", "-L", self.prefix / "lib", "-lreprise", f"-Wl,-rpath,{self.prefix}/lib"]
        if shutil.which("pkg-config"):
            flags = run("pkg-config", "--cflags", "--libs", "reprise",
                        env={**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}).split()
        program = self.folder / "story"
        run("cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", SOURCE / "examples/c/story.c", *flags, "-o", program)
        story = run(program, MODEL, cwd=self.folder)
        self.assertGreater(len(story), 20)
        self.assertEqual(run(sys.executable, SOURCE / "examples/c/story.py", library, MODEL, cwd=self.folder), story)
        names = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
        declared = set(re.findall(r"\b(reprise_\w+)\(", (self.prefix / "include/reprise.h").read_text()))
        self.assertEqual(names, declared)

    def test_a_project_with_the_sources_inside_inherits_no_flags(self):
        build = self.folder / "subproject"
        run("cmake", "-S", HERE / "subproject", "-B", build, "-G", "Ninja", f"-DREPRISE={SOURCE}",
            f"-DEXAMPLES={SOURCE / 'examples'}")
        inherited = dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "")
                         for line in (build / "inherited.txt").read_text().splitlines())
        # The target fmt passes FMT_SHARED on to all targets that link it.
        self.assertEqual({"options": "", "unity": ""},
                         {key: inherited[key].strip() for key in ("options", "unity")})
        self.assertLessEqual(set(filter(None, inherited["definitions"].split(";"))), {"FMT_SHARED"})


if __name__ == "__main__":
    unittest.main()
