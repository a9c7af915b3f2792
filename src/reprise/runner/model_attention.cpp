#include "reprise/runner/model_attention.h"

namespace reprise::engine {

attention::AttentionKind attention_kind_of(const weights::ModelConfig& model) {
  return model.mla ? attention::AttentionKind::latent : attention::AttentionKind::key_value;
}

kv_cache::KvCacheLayout kv_cache_layout_of(const weights::ModelConfig& model,
                                           int64_t num_blocks,
                                           int64_t block_size,
                                           DType dtype,
                                           const kv_cache::CacheDType& cache) {
  return {.num_layers = model.num_hidden_layers,
          .num_blocks = num_blocks,
          .num_kv_heads = model.mla ? 1 : model.num_key_value_heads,
          .block_size = block_size,
          .head_dim = model.mla ? model.mla->cache_row_size() : model.head_dim,
          .has_values = !model.mla,
          .dtype = cache.dtype.value_or(dtype),
          .has_row_scales = cache.has_row_scales};
}

}  // namespace reprise::engine
