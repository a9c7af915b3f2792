#pragma once

#include "reprise/kernels/lora_expand/lora_expand.h"
#include "reprise/kernels/lora_shrink/lora_shrink.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of adapters' products, in double.
namespace reprise::kernels {

void lora_shrink_ref(const Tensor& x, const Tensor& a, const Tensor& slots, const Tensor& out);
void lora_expand_ref(const Tensor& y,
                     const Tensor& shrunk,
                     const Tensor& b,
                     const Tensor& ends,
                     const Tensor& slots,
                     const Tensor& out);

}  // namespace reprise::kernels
