#pragma once

#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of caches and of the attention that reads them, in double.
namespace reprise::kernels {

void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping,
                  const CacheScales& scales = {});

/// Element i of a row of a cache, as a number.
[[nodiscard]] double cache_element(const Tensor& cache,
                                   int64_t head_dim,
                                   float scale,
                                   int64_t block,
                                   int64_t head,
                                   int64_t slot,
                                   int64_t i);

void concat_and_cache_mla_ref(const Tensor& kv_c,
                              const Tensor& k_pe,
                              const Tensor& kv_cache,
                              const Tensor& slot_mapping);

void attention_ref(const AttentionCall& call);

}  // namespace reprise::kernels
