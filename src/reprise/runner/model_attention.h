#pragma once

#include <cstdint>

#include "reprise/attention/attention_backend.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/model_config.h"

/// What the attention of a model needs from its runner.
namespace reprise::engine {

/// What the model's layers cache.
[[nodiscard]] attention::AttentionKind attention_kind_of(const weights::ModelConfig& model);

/// A cache of `num_blocks` blocks for the layers of a model whose element type is `dtype`.
[[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout_of(const weights::ModelConfig& model,
                                                         int64_t num_blocks,
                                                         int64_t block_size,
                                                         DType dtype,
                                                         const kv_cache::CacheDType& cache);

}  // namespace reprise::engine
