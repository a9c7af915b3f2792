#pragma once

#include "reprise/kernels/linear/linear_arguments.h"

namespace reprise::kernels {

/// product.out = residual + product.
struct alignas(16) LinearAddArguments {
  LinearArguments product;
  const void* residual;     // [rows, columns], rows residual_stride apart; may lie where out lies
  int64_t residual_stride;  // elements
};

}  // namespace reprise::kernels
