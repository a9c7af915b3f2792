#pragma once

#include <vector>

#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/tensor/tensor.h"
#include "tests/support/kernels/reference.h"

/// Reference implementations of caches and of the attention that reads them, in double.
namespace reprise::kernels {

void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping,
                  const CacheScales& scales = {});

/// The elements of a row of a cache, as numbers. Where rows have a scale of their own, it lies
/// behind `head_dim` codes, and `scale` is not used.
[[nodiscard]] std::vector<double> cache_row(const Tensor& cache,
                                            int64_t head_dim,
                                            float scale,
                                            const RowIndex& index);

void concat_and_cache_mla_ref(const Tensor& kv_c,
                              const Tensor& k_pe,
                              const Tensor& kv_cache,
                              const Tensor& slot_mapping);

void attention_ref(const AttentionCall& call);

}  // namespace reprise::kernels
