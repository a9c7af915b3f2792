"""What scripts/quickstart.sh builds and says on machines with and without a GPU, and what scripts/setup.sh asks for.

usage: scripts_test.py SOURCE_FOLDER

The machine is a folder of small programs in front of the PATH; nothing is built and nothing is installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1)).resolve()

PROGRAMS = {
    "cmake": 'echo "cmake version ${FAKE_CMAKE:-3.31.0}"; echo "cmake $*" >>"$FAKE_LOG"\n'
             'if [[ $1 == --preset ]]; then mkdir -p "build/$2"; touch "build/$2/build.ninja"; echo "$*" >"build/$2/configured"; fi',
    "ninja": 'echo "ninja $*" >>"$FAKE_LOG"; mkdir -p "$2/bin"\n'
             'printf "#!/bin/sh\\necho reprise: \\$*\\n" >"$2/bin/reprise"; chmod +x "$2/bin/reprise"\n'
             'if grep -q REPRISE_CUDA=ON "$2/configured"; then touch "$2/bin/reprise_cuda.so"; fi',
    "nvcc": 'echo "Cuda compilation tools, release $FAKE_NVCC, V$FAKE_NVCC.88"',
    "nvidia-smi": 'if [[ -z "$FAKE_GPUS" ]]; then exit 9; fi; printf "%b\\n" "$FAKE_GPUS"',
    "apt-cache": 'if [[ -n "$FAKE_BOOST" ]]; then echo "Package: libboost-dev"; echo "Version: $FAKE_BOOST"; fi',
    "apt-get": 'echo "apt-get $*" >>"$FAKE_LOG"\n'
               'if [[ "$*" == *" install "*boost* && -n "$FAKE_INSTALLED" ]]; then cp "$FAKE_INSTALLED" "$CPATH/boost/version.hpp"; fi',
    "id": "echo 0",
    # `-m pip download` writes the wheel, where there is a network; everything else is the real Python.
    "python3": 'if [[ "$1 $2 $3" != "-m pip download" ]]; then exec "$REAL_PYTHON" "$@"; fi\n'
               'echo "pip $*" >>"$FAKE_LOG"; if [[ -n "$FAKE_OFFLINE" ]]; then exit 1; fi\n'
               'touch build/downloads/flashinfer_python-1.0.post1-py3-none-any.whl',
}


class Machine:
    def __init__(self, test):
        self.folder = Path(tempfile.mkdtemp(prefix="reprise-scripts-"))
        test.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        for name in ("quickstart.sh", "build.sh", "setup.sh"):
            shutil.copy(SOURCE / "scripts" / name, self.folder / "scripts")
        (self.folder / "bin").mkdir()
        for name, text in PROGRAMS.items():
            program = self.folder / "bin" / name
            program.write_text(f"#!/bin/bash\n{text}\n")
            program.chmod(0o755)
        # The script must take the source of structured outputs for downloaded.
        (self.folder / "cmake").mkdir()
        (self.folder / "cmake/xgrammar.txt").write_text("xgrammar==1.0 --hash=none\n")
        (self.folder / "cmake/flashinfer.txt").write_text("# by its hash\nflashinfer-python==1.0.post1 --hash=none\n")
        (self.folder / "build/downloads").mkdir(parents=True)
        (self.folder / "build/downloads/xgrammar-1.0.tar.gz").touch()
        self.log = self.folder / "log"

    def run(self, script, *arguments, expect=0, **variables):
        self.log.write_text("")
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FAKE_LOG": str(self.log),
                       "CUDA_PATH": str(self.folder), "FAKE_NVCC": "", "FAKE_GPUS": "", "FAKE_BOOST": "", "FAKE_INSTALLED": "",
                       "FAKE_OFFLINE": "", "REAL_PYTHON": sys.executable, **variables}
        done = subprocess.run(["bash", f"scripts/{script}", *arguments], cwd=self.folder, env=environment, capture_output=True,
                              text=True, check=False)
        if done.returncode != expect:
            raise AssertionError(f"{script} exited {done.returncode}, expected {expect}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def logged(self, word):
        return [line for line in self.log.read_text().splitlines() if line.startswith(word) and "--version" not in line]


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(self)
        (self.machine.folder / "scripts/setup.sh").write_text("#!/bin/bash\n")
        (self.machine.folder / "scripts/setup.sh").chmod(0o755)

    def test_builds_the_kernels_of_the_gpu_that_is_here(self):
        for gpus, architectures in (("9.0", "90a"), ("8.0", "80"), ("8.9\\n9.0", "80;90a"), ("12.0\\n12.0", "120"), ("7.5\\n9.0", "90a")):
            said = self.machine.run("quickstart.sh", FAKE_GPUS=gpus, FAKE_NVCC="13.0")
            self.assertEqual([f"cmake --preset release -DREPRISE_CUDA=ON -DREPRISE_CUDA_FAST_COMPILE=OFF -DREPRISE_CUDA_ARCHITECTURES={architectures}"],
                             self.machine.logged("cmake"))
            self.assertNotIn("Built without", said)

    def test_says_why_the_kernels_are_left_out_and_spends_no_time_on_them(self):
        for gpus, nvcc, words in (("", "13.0", "nvidia-smi finds no GPU here; scripts/quickstart.sh --cuda builds them anyway."),
                                  ("9.0", "12.8", "nvcc here is of CUDA 12; install the toolkit of CUDA 13 or newer"),
                                  ("7.5", "13.0", "the GPU is older than compute capability 8.0.")):
            shutil.rmtree(self.machine.folder / "build", ignore_errors=True)
            said = self.machine.run("quickstart.sh", FAKE_GPUS=gpus, FAKE_NVCC=nvcc)
            self.assertEqual(["cmake --preset release -DREPRISE_CUDA=OFF"], self.machine.logged("cmake"))
            self.assertIn(f"Built without the kernels for NVIDIA GPUs: {words}", said.splitlines()[-1])

    def test_builds_them_without_a_gpu_where_that_is_asked_for(self):
        self.machine.run("quickstart.sh", FAKE_NVCC="13.0")
        said = self.machine.run("quickstart.sh", "--cuda", FAKE_NVCC="13.0")
        self.assertEqual(["cmake --preset release -DREPRISE_CUDA=ON -DREPRISE_CUDA_FAST_COMPILE=OFF"], self.machine.logged("cmake"))
        self.assertNotIn("Built without", said)
        # Later runs of the script keep the files that exist.
        self.assertNotIn("Built without", self.machine.run("quickstart.sh", FAKE_NVCC="13.0"))
        self.assertEqual([], self.machine.logged("cmake"))
        said = self.machine.run("quickstart.sh", "--cuda", FAKE_NVCC="12.8", expect=1)
        self.assertIn("needs nvcc of CUDA 13 or newer (found: 12)", said)

    def test_an_argument_that_it_does_not_know_is_a_mistake(self):
        self.assertIn("does not know '--gpu'", self.machine.run("quickstart.sh", "--gpu", expect=2))


class Setup(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(self)
        self.headers = self.machine.folder / "include"
        (self.headers / "boost/beast").mkdir(parents=True)
        (self.headers / "boost/beast/http.hpp").touch()
        self.version("107400")

    def version(self, number):
        (self.headers / "boost/version.hpp").write_text(f"#define BOOST_VERSION {number}\n")

    def missing(self, **variables):
        text = self.machine.run("setup.sh", "--check", CPATH=str(self.headers), expect=1, **variables)
        return [line.split()[0] for line in text.splitlines() if line.startswith("  ") and "optional" not in line]

    def test_old_versions_are_missing(self):
        self.assertIn("libboost-dev", self.missing())
        for cmake, is_missing in (("3.22.1", True), ("3.24.9", True), ("3.25.0", False), ("3.31.6", False), ("4.0.2", False)):
            self.assertEqual(is_missing, "cmake" in self.missing(FAKE_CMAKE=cmake), cmake)

    def test_the_name_of_boost_is_the_one_of_the_system(self):
        new = self.machine.folder / "version.hpp"
        new.write_text("#define BOOST_VERSION 108300\n")
        for offered, name in (("1.83.0.1", "libboost-dev"), ("1.74.0.3", "libboost1.81-dev"), ("", "libboost-dev")):
            self.version("107400")
            self.machine.run("setup.sh", CPATH=str(self.headers), FAKE_BOOST=offered, FAKE_INSTALLED=str(new))
            installed = " ".join(line for line in self.machine.logged("apt-get") if " install " in line)
            self.assertIn(f" {name}", installed)
            self.assertEqual(1, installed.count("libboost"), installed)

    def test_packages_that_are_too_old_are_no_success(self):
        old = self.machine.folder / "version.hpp"
        old.write_text("#define BOOST_VERSION 107400\n")
        said = self.machine.run("setup.sh", CPATH=str(self.headers), FAKE_BOOST="1.74.0.3", FAKE_INSTALLED=str(old), FAKE_CMAKE="3.22.1",
                                expect=1)
        self.assertIn("This system's packages are too old. Still missing:", said)
        self.assertIn("python3 -m pip install cmake", said)

    def test_flashinfer_is_downloaded_once_where_a_new_nvcc_is(self):
        new = self.machine.folder / "version.hpp"
        new.write_text("#define BOOST_VERSION 108300\n")

        def setup(*arguments, **variables):
            said = self.machine.run("setup.sh", *arguments, CPATH=str(self.headers), FAKE_INSTALLED=str(new), **variables)
            return said, len(self.machine.logged("pip"))

        self.assertEqual(0, setup(FAKE_NVCC="12.8")[1])
        self.assertEqual(0, setup("--without-flashinfer", FAKE_NVCC="13.0")[1])
        said, downloads = setup(FAKE_NVCC="13.0", FAKE_OFFLINE="1")
        self.assertEqual(1, downloads)
        self.assertIn("It could not be downloaded; going on without it: GPUs use Reprise's own attention kernels.", said)
        self.assertEqual(1, setup(FAKE_NVCC="13.0")[1])
        self.assertIn("--require-hashes", self.machine.logged("pip")[0])
        self.assertEqual(0, setup(FAKE_NVCC="13.0")[1], "it is there now")


if __name__ == "__main__":
    unittest.main()
