"""Lets scripts that say `from vllm import LLM` run on this engine, without a change.

    python -m reprise.vllm script.py ...      runs the script
    import reprise.vllm                       in a program, before its first `import vllm`

This is opt-in, because another package of this name may be installed. A part of vLLM that is not here cannot be imported,
and the error says so.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import runpy
import sys
import types
from collections.abc import Sequence
from typing import Any

_NAME = "vllm"
_VERSION = "0.32.0"  # whose names the package has; scripts compare versions


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `vllm.X` as `reprise.X`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _NAME and not fullname.startswith(_NAME + "."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        ours = "reprise" + spec.name[len(_NAME):]
        try:
            found = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise
            raise ModuleNotFoundError(
                f"{spec.name} is not a part of vLLM that Reprise has (docs/howto/python.md lists them)", name=spec.name
            ) from None
        module = types.ModuleType(spec.name, found.__doc__)
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        if spec.name == _NAME:
            module.__dict__["__version__"] = _VERSION
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        def missing(name: str) -> Any:
            raise AttributeError(f"{module.__name__} has no '{name}' in Reprise (docs/howto/python.md lists what there is)")

        module.__dict__["__getattr__"] = missing


def install() -> None:
    """Makes `import vllm` mean this package. Raises ImportError if the other package was imported before."""
    if any(isinstance(finder, _Alias) for finder in sys.meta_path):
        return
    if _NAME in sys.modules:
        raise ImportError("vllm was imported already; import reprise.vllm before it")
    sys.meta_path.insert(0, _Alias())


if __name__ == "__main__":
    # As the module `reprise.vllm`, so that a script that imports it too finds it installed.
    importlib.import_module("reprise.vllm")
    if len(sys.argv) < 2:
        sys.exit("usage: python -m reprise.vllm SCRIPT [ARGUMENT ...]")
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    install()
