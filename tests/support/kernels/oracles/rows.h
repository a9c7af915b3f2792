#pragma once

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/concat/concat.h"
#include "reprise/kernels/gather_rows/gather_rows.h"
#include "reprise/kernels/pool_rows/pool_rows.h"
#include "reprise/kernels/quantize/quantize.h"
#include "reprise/kernels/rope/rope.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of ops on rows, in double.
namespace reprise::kernels {

void add_ref(const Tensor& a, const Tensor& b, const Tensor& out);
void concat_ref(const Tensor& a, const Tensor& b, const Tensor& out);
void gather_rows_ref(const Tensor& x, const Tensor& indices, const Tensor& out);
void pool_rows_ref(OpFunction function,
                   const Tensor& x,
                   const Tensor& ends,
                   const Tensor& num_rows,
                   const Tensor& out);

void rope_ref(const Tensor& q,
              const Tensor& k,
              const Tensor& positions,
              const Tensor& cos_sin,
              const Tensor& q_out,
              const Tensor& k_out);

/// Quantisation has only one right result, so kernels must have the same bits.
void quantize_per_token_ref(const Tensor& x, const Tensor& q, const Tensor& scales);
void quantize_static_ref(const Tensor& x, const Tensor& scale, const Tensor& q);

}  // namespace reprise::kernels
