from __future__ import annotations

import os


class ProcessGuard:
    """Refuses to use an engine in a forked child: its threads exist in the parent only."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this engine belongs to process {self._pid} and this is its forked child "
                f"{os.getpid()}; make the engine in the child, or start it with "
                "multiprocessing's 'spawn' method"
            )
