#pragma once

#include <array>
#include <span>

#include "reprise/device/kernel.h"
#include "reprise/kernels/kernel_table.h"

namespace reprise::kernels::cuda {

/// The tensor cores' kernels of a product, by the rows of a block's tile. nullptr: there is none.
struct FragmentKernels {
  const device::Kernel* for_8_rows = nullptr;
  const device::Kernel* for_32_rows = nullptr;
};

/// A product's kernels for one type: on the tensor cores, with tiles of 8 and of 16 columns, and
/// one for any type, depth and alignment.
struct LinearKernels {
  FragmentKernels of_8_columns;
  FragmentKernels of_16_columns;
  const device::Kernel* dots = nullptr;
};

struct AttentionKernels {
  const device::Kernel* head_64 = nullptr;  // nullptr: not for this type
  const device::Kernel* head_128 = nullptr;
  const device::Kernel* by_rows = nullptr;
};

/// Of one type, by the routine that an attention backend asks for.
struct AttentionRoutineKernels {
  AttentionKernels any_batch;
  AttentionKernels uniform;
  AttentionKernels planned;
  AttentionKernels prefill;               // any batch; for requests of many tokens. Never by rows
  const device::Kernel* merge = nullptr;  // the second launch of the planned ones
};

/// Kernels that are launched as the CPU's of the same names are: same arguments, same grids. The
/// others of the table have no code.
[[nodiscard]] const KernelTable& row_kernels();

/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] LinearKernels linear_kernels(DType dtype);
[[nodiscard]] LinearKernels lm_head_kernels(DType dtype);
[[nodiscard]] LinearKernels linear_silu_and_mul_kernels(DType dtype);
/// Without `dots`: where the fragments' kernels do not fit, it takes two launches.
[[nodiscard]] LinearKernels linear_rope_kv_write_kernels(DType dtype);
[[nodiscard]] AttentionRoutineKernels attention_kernels(DType dtype);

[[nodiscard]] const device::Kernel& sampling_kernel();

/// All of them, to be loaded before anything is captured.
[[nodiscard]] std::span<const device::Kernel* const> all_kernels();

}  // namespace reprise::kernels::cuda
