#pragma once

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/packed_call.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// What a launch of a product depends on besides its operands.
struct PackedMachine {
  int num_multiprocessors;
  GemmLibrary* library;  // for many rows; nullptr: the machine has none
};

/// out = x weight^T + bias, then the sum with a residual if there is one.
bool launch_packed_linear(const OpRun& run, const PackedCall& call, const PackedMachine& machine);

/// Launches an op whose second operand is a packed weight: a product with any epilogue but a
/// rotation, or a product of experts. Kernels read the header of a weight in blocks, because the
/// host cannot. \throws InvalidArgument for other ops and other layouts
bool launch_packed_product(const OpRun& run, const PackedMachine& machine);

}  // namespace reprise::kernels::cuda
