#!/usr/bin/env python3
"""What configuring says about the version of a CUDA toolkit. usage: cuda_toolkit_test.py CMAKE SOURCES"""

import subprocess
import sys
import tempfile
from pathlib import Path

CMAKE, SOURCES = sys.argv[1], Path(sys.argv[2])


def configure(version, option):
    """Return code and output of configuring with a toolkit that only has its version and headers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        toolkit = folder / "toolkit"
        for file in ("include/cuda_runtime.h", "include/cublasLt.h", "include/cuda.h", "lib64/libcudart.so",
                     "lib/x64/cudart.lib"):
            (toolkit / file).parent.mkdir(parents=True, exist_ok=True)
            (toolkit / file).touch()
        nvcc = toolkit / "bin" / "nvcc"
        nvcc.parent.mkdir()
        nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.99'\n")
        nvcc.chmod(0o755)
        project = folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(toolkit LANGUAGES CXX)\n"
            f"include({SOURCES}/cmake/Cuda.cmake)\n")
        result = subprocess.run([CMAKE, "-S", project, "-B", folder / "build", f"-DCUDAToolkit_ROOT={toolkit}",
                                 f"-DREPRISE_CUDA={option}"], capture_output=True, text=True, check=False)
        return result.returncode, " ".join((result.stdout + result.stderr).split())


def check(condition, message):
    if not condition:
        sys.exit(f"cuda_toolkit_test: {message}")


code, said = configure("12.8", "ON")
check(code != 0 and "is CUDA 12.8.99, and CUDA 13 or newer is needed" in said, f"12.8, ON: {code}, {said}")
code, said = configure("12.8", "AUTO")
check(code == 0 and "No CUDA plug-in: the toolkit under" in said and "12.8.99" in said, f"12.8, AUTO: {code}, {said}")
code, said = configure("13.0", "ON")
check(code == 0 and "CUDA 13.0.99: building the plug-in" in said, f"13.0, ON: {code}, {said}")
code, said = configure("13.0", "OFF")
check(code == 0 and "CUDA 13" not in said, f"13.0, OFF: {code}, {said}")
