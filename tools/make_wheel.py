#!/usr/bin/env python3
"""Makes a wheel of the Python package from what a build folder has, for the Python that it was built with.

usage: make_wheel.py BUILD_FOLDER TARGET_FOLDER

The wheel has the module, the native program as the command `reprise`, the plug-ins and the shared libraries that they need: it
runs on every Linux with glibc 2.35 or newer (manylinux_2_35). scripts/package.sh runs it, with the Python of the module.
"""

import argparse
import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_35_x86_64"
# The program and its plug-ins, in the package's folder: bin/reprise, lib/*.so, lib/reprise/*.so.
NATIVE = ("program", "shared_libraries", "models", "licences")
# The command in Python, which replaces itself with the native program.
COMMAND = '''"""The command `reprise`: the native program of this package."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).resolve().parent / "bin" / "reprise"
    os.execv(program, [sys.argv[0], *sys.argv[1:]])
'''


def install(build: Path, component: str, prefix: Path) -> None:
    command = ["cmake", "--install", build, "--prefix", prefix, "--component", component, "--strip"]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def metadata(project: dict) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}",
             "License-File: LICENSE", "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    return "\n".join(lines) + "\n\n" + (SOURCE / project["readme"]).read_text(encoding="utf-8")


def stage(build: Path, root: Path) -> None:
    """Writes the files of the wheel but for the folder that describes it."""
    package = root / "reprise"
    install(build, "python", root)
    for component in NATIVE:
        install(build, component, package)
    # Here the plug-ins are beside the module; those in lib are for module and program.
    for plugin in package.glob("reprise_*.so"):
        plugin.unlink()
    # This plug-in needs the Open MPI of the machine on which it was built.
    (package / "lib/reprise_mpi.so").unlink(missing_ok=True)
    for source in sorted((SOURCE / "python/reprise").rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            target = package / source.relative_to(SOURCE / "python/reprise")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    (package / "command.py").write_text(COMMAND, encoding="utf-8")


def digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(root: Path, target: Path) -> Path:
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = re.sub(r"[-.]+", "_", project["name"])
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{PLATFORM}"
    info = f"{name}-{project['version']}.dist-info"
    described = {
        f"{info}/METADATA": metadata(project),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: reprise\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\nreprise = reprise.command:main\n",
        f"{info}/LICENSE": (SOURCE / "LICENSE").read_text(encoding="utf-8"),
    }
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{name}-{project['version']}-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(name: str, content: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same files give the same bytes
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            record.append(f"{name},{digest(content)},{len(content)}")

        for file in sorted(root.rglob("*")):
            if file.is_file():  # a link becomes a copy, because wheels have none
                add(file.relative_to(root).as_posix(), file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644)
        for name_in_wheel, text in described.items():
            add(name_in_wheel, text.encode(), 0o644)
        wheel.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if not (options.build / "python/reprise" / f"_core{suffix}").exists():
        parser.error(f"{options.build} has no module for this Python (_core{suffix}); build the target reprise_python with "
                     f"REPRISE_BUILD_PYTHON=ON, or use the Python that it was built with")
    with tempfile.TemporaryDirectory() as folder:
        stage(options.build, Path(folder))
        print(write(Path(folder), options.target))


if __name__ == "__main__":
    main()
