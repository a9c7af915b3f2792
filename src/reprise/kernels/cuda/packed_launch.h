#pragma once

#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// Launches an op whose second operand is a weight in blocks: a product with any epilogue that has
/// quantised rows, or a product of experts. Kernels read the header of the weight, because the host
/// cannot. \throws InvalidArgument for other ops and other layouts
bool launch_packed_product(const OpRun& run, int num_multiprocessors);

}  // namespace reprise::kernels::cuda
