// Every kernel, once. An ISA file includes its vector/*.inl before this, inside an unnamed
// namespace: nothing here may have external linkage, or the linker could use one instruction set's
// copy of a function for all.
// clang-format off: each file stands after the files whose row functions it calls.
#include "reprise/kernels/vector/exp.inl"
#include "reprise/kernels/vector/dot.inl"

#include "reprise/kernels/rms_norm/rms_norm.inl"
#include "reprise/kernels/add/add.inl"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.inl"
#include "reprise/kernels/silu_and_mul/silu_and_mul.inl"
#include "reprise/kernels/quantize/quantize.inl"
#include "reprise/kernels/gather_rows/gather_rows.inl"
#include "reprise/kernels/linear/linear.inl"
#include "reprise/kernels/rope/rope.inl"
#include "reprise/kernels/kv_write/kv_write.inl"
#include "reprise/kernels/attention/attention.inl"
#include "reprise/kernels/attention/planned_attention.inl"
#include "reprise/kernels/scaled_linear/scaled_linear.inl"
#include "reprise/kernels/linear_add/linear_add.inl"
#include "reprise/kernels/linear_silu_and_mul/linear_silu_and_mul.inl"
#include "reprise/kernels/rope_kv_write/rope_kv_write.inl"
#include "reprise/kernels/linear_rope_kv_write/linear_rope_kv_write.inl"
