#!/usr/bin/env python3
"""Runs the steps of deploy/Dockerfile in folders with Debian, without Docker, and tests the result.

usage: sudo scripts/test_image.py --root FOLDER [--program PREFIX | --packages FOLDER] [--bind PATH ...]

debootstrap makes FOLDER/debian, once. Each stage is a copy of it in which the steps run by chroot: RUN,
COPY, WORKDIR, ARG and ENV as Docker runs them. Then ENTRYPOINT and CMD run as USER, on a root that cannot be
written to, and HEALTHCHECK must succeed.

  --program PREFIX   take /opt/reprise from here (cmake --install build/release --component program
                     --prefix PREFIX) instead of building it in the first stage, which takes long
  --packages FOLDER  run the steps of deploy/Dockerfile.package over this folder (build/release/packages)
  --bind PATH        show this file or folder of the machine to the steps too: certificates, pip.conf
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
HEALTHY_WITHIN_SECONDS = 60
# Paths of the image that the program must not need at run time.
FORBIDDEN = ("usr/bin/python3", "usr/bin/gcc", "usr/bin/cmake", "usr/bin/curl")


def instructions(text):
    """(name, rest) for each instruction; lines that end with a backslash go on."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if line.strip():
            name, rest = line.strip().split(None, 1)
            yield name.upper(), re.sub(r"\s+", " ", rest) if name.upper() != "HEALTHCHECK" else rest


def stages(text, bases=r"debian:bookworm-slim"):
    """[(name, instructions)]; the last stage is the image."""
    found, arguments = [], {}
    for name, rest in instructions(text):
        if name == "ARG" and not found:
            key, default = rest.split("=", 1)
            arguments[key] = default
        elif name == "FROM":
            base, *alias = rest.split(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match.group(1)], base)
            if not re.fullmatch(bases, base):
                raise SystemExit(f"FROM {base}: this script only knows {bases}")
            found.append((alias[0] if alias else "image", []))
        else:
            found[-1][1].append((name, rest))
    return found


class Stage:
    def __init__(self, folder, binds):
        self.folder, self.binds = folder, binds
        self.workdir, self.environment, self.settings = "/", {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, {}

    def chroot(self, command, user=None, read_only=False, **options):
        """The command inside, in a mount namespace of its own: its mounts end with it."""
        root = shlex.quote(str(self.folder))
        steps = [f"mount --bind {root} {root}", f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        for path in ["/etc/resolv.conf", "/etc/hosts", *self.binds]:
            inside = self.folder / path.lstrip("/")
            if Path(path).is_dir():
                inside.mkdir(parents=True, exist_ok=True)
            elif not inside.exists():
                inside.parent.mkdir(parents=True, exist_ok=True)
                inside.touch()
            steps.append(f"mount --bind {shlex.quote(path)} {shlex.quote(str(inside))}")
        if read_only:
            steps.append(f"mount -t tmpfs tmpfs {root}/tmp && mount -t tmpfs -o mode=2777,gid=10001 tmpfs {root}/var/cache/reprise")
            steps.append(f"mount -o remount,bind,ro {root}")
        as_user = f"--userspec={user} " if user else ""
        inner = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        steps.append(f"exec chroot {as_user}{root} /bin/bash -c {shlex.quote(inner)}")
        return subprocess.Popen(["unshare", "-m", "bash", "-ec", "\n".join(steps)],
                                env={**self.environment, **passed_on()}, **options)

    def run(self, text):
        print(f"RUN {text[:110]}", flush=True)
        start = time.monotonic()
        if self.chroot(["/bin/bash", "-o", "pipefail", "-c", text]).wait() != 0:
            raise SystemExit(f"this step failed: {text}")
        print(f"    {time.monotonic() - start:.1f} s", flush=True)

    def copy(self, source, words):
        *names, target = words
        place = self.folder / os.path.join(self.workdir, target).lstrip("/")
        for origin in (path for name in names for path in sorted(source.glob(name.lstrip("/")))):
            if origin.is_dir():
                shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True)
            else:
                to = place / origin.name if target.endswith("/") else place
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, to)


def passed_on():
    """Variables that name certificates and proxies of this machine."""
    return {name: value for name, value in os.environ.items() if re.search(r"^(PIP|SSL)_|_proxy$|CA_BUNDLE$", name, re.I)}


def apply(stage, instruction, rest, others, context):
    if instruction == "RUN":
        stage.run(rest)
    elif instruction == "WORKDIR":
        stage.workdir = os.path.join(stage.workdir, rest)
        (stage.folder / stage.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif instruction == "COPY":
        words = rest.split()
        source = context
        if words[0].startswith("--from="):
            source = others[words.pop(0).removeprefix("--from=")]
        stage.copy(source, words)
    elif instruction == "ARG":
        name, default = rest.split("=", 1)
        stage.environment[name] = default.strip('"')
    elif instruction == "ENV":
        for pair in shlex.split(rest):
            name, value = pair.split("=", 1)
            stage.environment[name] = value.replace("$PATH", stage.environment["PATH"])
    elif instruction == "HEALTHCHECK":
        stage.settings[instruction] = json.loads(re.search(r"CMD (\[.*\])", rest).group(1))
    elif instruction in ("ENTRYPOINT", "CMD"):
        stage.settings[instruction] = json.loads(rest)
    elif instruction in ("USER", "EXPOSE", "STOPSIGNAL", "SHELL"):
        stage.settings[instruction] = rest
    else:
        raise SystemExit(f"{instruction}: this script does not know this instruction")


def build(root, binds, program, packages):
    others, stage = {}, None
    file, context = ("Dockerfile.package", packages) if packages else ("Dockerfile", SOURCE)
    for name, steps in stages((SOURCE / "deploy" / file).read_text()):
        if program and name == "build":
            print(f"stage {name}: left out, its program is in {program}")
            others[name] = Path(tempfile.mkdtemp(dir=root))
            shutil.copytree(program, others[name] / "opt/reprise", symlinks=True)
            continue
        print(f"stage {name}")
        folder = root / name
        if folder.exists():
            shutil.rmtree(folder)
        subprocess.run(["cp", "-a", root / "debian", folder], check=True)
        stage = Stage(folder, binds)
        for instruction, rest in steps:
            apply(stage, instruction, rest, others, context)
        others[name] = folder
    return stage


def answers(stage, server):
    """Whether HEALTHCHECK succeeds in time; Docker runs it in the same way."""
    deadline = time.monotonic() + HEALTHY_WITHIN_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        check = stage.chroot(stage.settings["HEALTHCHECK"], stage.settings["USER"], stderr=subprocess.DEVNULL)
        if check.wait() == 0:
            return True
        time.sleep(0.2)
    return False


def test(stage):
    found = [path for path in FORBIDDEN if (stage.folder / path).exists()]
    if found:
        raise SystemExit(f"the image has {found}")
    command = stage.settings["ENTRYPOINT"] + stage.settings["CMD"]
    user = stage.settings["USER"]
    refused = stage.chroot(command, user, stderr=subprocess.PIPE, text=True)
    message = refused.communicate()[1]
    if refused.returncode != 2 or "key" not in message:
        raise SystemExit(f"without a key the image must not start: {refused.returncode} {message}")
    print(f"without a key: {message.strip()}")
    stage.environment["VLLM_API_KEY"] = "key-of-a-test"
    start = time.monotonic()
    server = stage.chroot(command, user, read_only=True, stderr=subprocess.PIPE, text=True)
    log = []
    reader = threading.Thread(target=lambda: log.extend(server.stderr))
    reader.start()
    try:
        if not answers(stage, server):
            raise SystemExit("HEALTHCHECK never succeeded")
        print(f"healthy after {time.monotonic() - start:.1f} s, as user {user}, on a root that is read-only")
        uids = Path(f"/proc/{server.pid}/status").read_text()
        if re.search(r"^Uid:\s+0", uids, re.M):
            raise SystemExit("the server runs as root")
    finally:
        server.terminate()
        status = server.wait(timeout=60)
        reader.join()
        print("    " + "    ".join(log), end="")
    if any(line.startswith("WARNING") for line in log):
        raise SystemExit("the server warns")
    if status != 0:
        raise SystemExit(f"SIGTERM: the server ended with {status}, expected 0")
    size = subprocess.run(["du", "-sm", stage.folder, "--exclude=proc"], capture_output=True, text=True, check=True)
    base = subprocess.run(["du", "-sm", stage.folder.parent / "debian"], capture_output=True, text=True, check=True)
    megabytes, of_debian = int(size.stdout.split()[0]), int(base.stdout.split()[0])
    print(f"passed; {megabytes} MiB, {megabytes - of_debian} MiB of them beyond debootstrap's Debian")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--bind", action="append", default=[])
    arguments = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        raise SystemExit("this script needs root rights, and debootstrap (apt-get install debootstrap)")
    root = arguments.root.resolve()
    if not (root / "debian/bin/bash").exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root / "debian"], check=True)
    test(build(root, arguments.bind, arguments.program, arguments.packages))


if __name__ == "__main__":
    sys.exit(main())
