#pragma once

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// What a launch of a product depends on besides its operands.
struct PackedMachine {
  int num_multiprocessors;
  GemmLibrary* library;  // for many rows; nullptr: the machine has none
};

/// Launches an op whose second operand is a weight in blocks: a product with any epilogue that has
/// quantised rows, or a product of experts. Kernels read the header of the weight, because the host
/// cannot. \throws InvalidArgument for other ops and other layouts
bool launch_packed_product(const OpRun& run, const PackedMachine& machine);

}  // namespace reprise::kernels::cuda
