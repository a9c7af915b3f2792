"""When a step replays a graph."""

from __future__ import annotations

import enum


class CUDAGraphMode(enum.Enum):
    """A value of `cudagraph_mode`. Names, values and methods are vLLM's; FULL_AND_FULL is not in vLLM.

    A mode with two routines is a pair: that of uniform decode batches, and that of all other batches.
    """

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (FULL, NONE)
    FULL_AND_PIECEWISE = (FULL, PIECEWISE)
    FULL_AND_FULL = (FULL, FULL)

    def decode_mode(self) -> CUDAGraphMode:
        """The mode of uniform decode batches."""
        return CUDAGraphMode(self.value[0]) if self.separate_routine() else self

    def mixed_mode(self) -> CUDAGraphMode:
        """The mode of all other batches."""
        return CUDAGraphMode(self.value[1]) if self.separate_routine() else self

    def separate_routine(self) -> bool:
        """Whether uniform decode batches have a mode of their own."""
        return isinstance(self.value, tuple)

    def has_mode(self, mode: CUDAGraphMode) -> bool:
        """Whether one of the two modes is `mode`."""
        return mode in (self.decode_mode(), self.mixed_mode())

    def max_cudagraph_mode(self) -> CUDAGraphMode:
        """The larger of the two modes."""
        return max(self.decode_mode(), self.mixed_mode(), key=lambda mode: mode.value)

    def has_full_cudagraphs(self) -> bool:
        return self.has_mode(CUDAGraphMode.FULL)

    def has_piecewise_cudagraphs(self) -> bool:
        return self.requires_piecewise_compilation()

    def requires_piecewise_compilation(self) -> bool:
        return self.has_mode(CUDAGraphMode.PIECEWISE)

    @classmethod
    def valid_runtime_modes(cls) -> frozenset[CUDAGraphMode]:
        """The modes in which one step can run."""
        return frozenset(mode for mode in cls if not mode.separate_routine())

    def is_valid_runtime_mode(self) -> bool:
        return not self.separate_routine()

    def __str__(self) -> str:
        return self.name
