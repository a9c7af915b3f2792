#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The experts that one rank has, if ranks have divided the experts among themselves.
struct LocalExperts {
  int64_t begin = 0;
  int64_t count = 0;
};

/// Numbers this rank's experts from 0. Experts of other ranks become -1, and their weights 0: the
/// matrix products of experts skip such rows, and the shapes of a step stay the same for every
/// choice of experts.
bool launch_local_experts(device::Stream& stream,
                          LocalExperts mine,
                          const Tensor& weights,        // float32[num_tokens, K], dense
                          const Tensor& experts,        // int32[num_tokens, K], dense
                          const Tensor& local_weights,  // as weights
                          const Tensor& local_ids);     // as experts

}  // namespace reprise::kernels
