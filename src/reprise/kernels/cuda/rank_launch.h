#pragma once

#include "reprise/kernels/device_ranks.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// Launches local_experts.
bool launch_local_experts(const OpRun& run);

/// Launches a collective op on a GPU: exchanges of bytes by `groups`, and kernels that add and
/// order what was exchanged. Sums have the bits of the CPU's: in the order of the ranks, in
/// float32, rounded once. Returns whether anything was launched. \throws InvalidArgument without a
/// group of the ranks that the op needs, and for the ops that overlap products with exchanges
bool launch_collective(const OpRun& run, DeviceRankGroups groups);

}  // namespace reprise::kernels::cuda
