// Every kernel, once. A source of an instruction set includes its vector/*.inl before this file,
// inside an unnamed namespace: nothing here may have external linkage, or the linker could use the
// copy of a function for one instruction set in all others.
// clang-format off: dot.inl stands after exp.inl, which it uses.
#include "reprise/kernels/vector/exp.inl"
#include "reprise/kernels/vector/some_lanes.inl"
#include "reprise/kernels/vector/tanh_erf.inl"
#include "reprise/kernels/vector/dot.inl"
#include "reprise/kernels/vector/numbers.inl"
#include "reprise/kernels/vector/panel_stretch.inl"
#include "reprise/kernels/vector/pair_tile.inl"
#include "reprise/kernels/vector/four_tile.inl"
// clang-format on
#include "reprise/kernels/kernel_bodies.inl"
