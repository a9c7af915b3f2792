#!/usr/bin/env python3
"""Which device `--device auto` and `--device cuda` take, and what they say, on machines whose driver is a small fake library.

    device_choice_test.py REPRISE_BINARY MODEL_FOLDER COMPILER [PLUGIN]

PLUGIN is the real reprise_cuda.so; without it only a build without the plug-in is tested. Uses only Python's standard library.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY, MODEL, COMPILER = sys.argv[1:4]
PLUGIN = sys.argv[4] if len(sys.argv) > 4 else None

# A driver that answers the calls before a device is opened. Its functions are found by name, like those of the real
# driver.
DRIVER = r"""
#include <string.h>
static int any(void) { return 0; }
static int init(unsigned flags) { return INIT; }
static int get_count(int *count) { *count = 1; return 0; }
static int get(int *device, int index) { *device = index; return 0; }
static int attribute(int *value, int which, int device) { *value = which == 75 ? MAJOR : which == 76 && MAJOR == 7 ? 5 : 0; return 0; }
static int name(char *text, int size, int device) { strncpy(text, "Some GPU", size); return 0; }
static int error_name(int error, const char **text) { *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER"; return 0; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
#ifndef BEFORE_12
int cuGetProcAddress_v2(const char *symbol, void **place, int version, unsigned long long flags, int *status) {
  *place = !strcmp(symbol, "cuInit") ? (void *)init : !strcmp(symbol, "cuDeviceGetCount") ? (void *)get_count
         : !strcmp(symbol, "cuDeviceGet") ? (void *)get : !strcmp(symbol, "cuDeviceGetAttribute") ? (void *)attribute
         : !strcmp(symbol, "cuDeviceGetName") ? (void *)name : !strcmp(symbol, "cuGetErrorName") ? (void *)error_name
         : !strcmp(symbol, "cuGraphGetEdges") && LACKS_EDGES ? 0 : (void *)any;
  return 0;
}
#endif
"""
FACTS = {"VERSION": 13000, "INIT": 0, "MAJOR": 9, "LACKS_EDGES": 0}


class DeviceChoice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        for name in ("with", "without"):
            (cls.folder / name).mkdir()
            shutil.copy(BINARY, cls.folder / name / "reprise")
        if PLUGIN:
            shutil.copy(PLUGIN, cls.folder / "with/reprise_cuda.so")

    def driver(self, **facts):
        """A folder with a libcuda.so.1."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "driver.c").write_text(DRIVER)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-x", "c", "-w", folder / "driver.c", "-o", folder / "libcuda.so.1",
                        *(f"-D{name}={value}" for name, value in {**FACTS, **facts}.items())], check=True)
        return folder

    def start(self, build, device, driver=None):
        done = subprocess.run([self.folder / build / "reprise", "generate", MODEL, "--prompt", "Once", "--max-tokens", "1", "--device", device],
                              env={**os.environ, "LD_LIBRARY_PATH": str(driver or self.folder)}, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 2 if device == "cuda" else 0, done.stderr)
        return done.stderr

    def check(self, build, driver, *words):
        """Both devices give the same reason: auto goes on with the CPU, in one line."""
        said = self.start(build, "auto", driver)
        lines = [line for line in said.splitlines() if line.startswith("running on the CPU, not on a GPU: ")]
        self.assertEqual(1, len(lines), said)
        refused = self.start(build, "cuda", driver)
        for word in words:
            self.assertIn(word, lines[0])
            self.assertIn(word, refused)

    def test_a_build_without_the_plug_in_speaks_where_there_is_a_driver(self):
        self.check("without", self.driver(), "this build has no reprise_cuda.so; scripts/quickstart.sh --cuda builds it")
        self.assertIn("this build has no reprise_cuda.so", self.start("without", "cuda"))

    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a driver")
    def test_a_build_without_the_plug_in_is_silent_where_nothing_could_use_it(self):
        self.assertNotIn("GPU", self.start("without", "auto"))

    @unittest.skipUnless(PLUGIN, "built without CUDA")
    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a driver")
    def test_no_driver(self):
        self.check("with", None, "no NVIDIA driver here", "install one for CUDA 13 or newer")

    @unittest.skipUnless(PLUGIN, "built without CUDA")
    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine has a driver")
    def test_every_command_that_starts_an_engine_says_why_it_runs_on_the_cpu(self):
        requests = self.folder / "requests.jsonl"
        requests.write_text("")
        for command in (["dump", MODEL], ["run-batch", MODEL, "-i", requests, "-o", self.folder / "answers.jsonl"],
                        ["bench", "latency", MODEL, "--input-len", "4", "--output-len", "2", "--num-iters", "1", "--num-iters-warmup", "1"]):
            done = subprocess.run([self.folder / "with/reprise", *command], capture_output=True, text=True, timeout=300, check=True)
            self.assertEqual(1, done.stderr.count("running on the CPU, not on a GPU: no NVIDIA driver here"), (command, done.stderr))
        server = subprocess.Popen([self.folder / "with/reprise", "serve", MODEL, "--port", "0"], stderr=subprocess.PIPE, text=True)
        try:
            lines = []
            while not lines or "Application startup complete." not in lines[-1]:
                lines.append(server.stderr.readline())
                self.assertTrue(lines[-1], lines)
            self.assertEqual(1, sum("running on the CPU, not on a GPU: no NVIDIA driver here" in line for line in lines), lines)
        finally:
            server.kill()
            server.communicate()

    @unittest.skipUnless(PLUGIN, "built without CUDA")
    def test_a_driver_that_is_too_old(self):
        self.check("with", self.driver(BEFORE_12=1), "older than CUDA 12", "install a driver for CUDA 13 or newer")
        self.check("with", self.driver(VERSION=12080), "the NVIDIA driver is for CUDA 12.8; install a driver for CUDA 13 or newer")
        self.check("with", self.driver(LACKS_EDGES=1), "the NVIDIA driver has no cuGraphGetEdges; install")

    @unittest.skipUnless(PLUGIN, "built without CUDA")
    def test_a_driver_without_a_gpu(self):
        self.check("with", self.driver(INIT=100), "finds no GPU that it can use (cuInit: CUDA_ERROR_NO_DEVICE)", "CUDA_VISIBLE_DEVICES")

    @unittest.skipUnless(PLUGIN, "built without CUDA")
    def test_a_gpu_that_is_too_old(self):
        self.check("with", self.driver(MAJOR=7), "Some GPU has compute capability 7.5", "the kernels need 8.0 or newer")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
