#pragma once

#include "reprise/kernels/linear/linear_arguments.h"

namespace reprise::kernels {

/// A matrix product for each head.
struct alignas(16) HeadLinearArguments {
  LinearArguments first_head;
  int64_t heads;
  int64_t x_head_stride;  // elements
  int64_t blocks_per_head;
};

}  // namespace reprise::kernels
