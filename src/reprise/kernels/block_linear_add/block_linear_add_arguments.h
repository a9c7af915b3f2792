#pragma once

#include "reprise/kernels/block_linear/block_linear_arguments.h"

namespace reprise::kernels {

struct alignas(16) BlockLinearAddArguments {
  BlockLinearArguments product;
  const void* residual;  // [rows, columns], rows residual_stride apart
  int64_t residual_stride;
};

}  // namespace reprise::kernels
