"""`python -m reprise.entrypoints.openai.api_server --model MODEL ...` is `reprise serve --model MODEL ...`.

The process becomes the native program, so signals and exit codes are the server's.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def find_program() -> str:
    """The `reprise` command of this installation, or the one on PATH. Raises FileNotFoundError."""
    folders = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.environ.get("PATH"))
    for folder in folders:
        program = shutil.which("reprise", path=folder)
        if program:
            return program
    raise FileNotFoundError("the `reprise` command is neither beside this Python nor on PATH; install the package again")


if __name__ == "__main__":
    path = find_program()
    os.execv(path, [path, "serve", *sys.argv[1:]])
