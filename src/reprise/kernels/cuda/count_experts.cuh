#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/select_experts/count_experts_arguments.h"

namespace reprise::kernels::cuda {

/// Adds the tokens of each expert to its count.
REPRISE_DEVICE void count_experts(const CountExpertsArguments& a) {
  const int64_t end = min_of(a.num_rows, *a.num_tokens) * a.top_k;
  for (int64_t i = thread_index(); i < end; i += num_threads()) {
    const int32_t expert = a.experts[i];
    if (expert >= 0 && expert < a.num_experts) (void)atomic_add(a.counts + expert, 1);
  }
}

}  // namespace reprise::kernels::cuda
