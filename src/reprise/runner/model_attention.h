#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/config/model_config.h"

/// What the attention of a model needs from its runner.
namespace reprise::runner {

/// The kinds of layers of a model: that of its attention layers, then that of its recurrent layers.
[[nodiscard]] std::vector<attention::AttentionKind> layer_kinds_of(
    const weights::ModelConfig& model);
/// The first of them: of the backend that users may choose.
[[nodiscard]] attention::AttentionKind attention_kind_of(const weights::ModelConfig& model);

/// The backend of each kind of layers, with the layers that it serves. The first kind has the
/// backend `chosen`, or the one that "auto" stands for; the second kind the one of "auto".
[[nodiscard]] std::vector<attention::LayerBackend> layer_backends(
    const weights::ModelConfig& model, const attention::BackendInfo* chosen = nullptr);

/// The same for the resolution of the mode, with the layers as text: "0-2, 4".
[[nodiscard]] std::vector<cudagraph::AttentionBackendSupport> attention_groups(
    std::span<const attention::LayerBackend> backends);

/// States in `num_slots` slots of requests and snapshots, the null slot not counted. Without
/// recurrent layers it has no layers.
[[nodiscard]] kv_cache::StateCacheLayout state_cache_layout_of(const weights::ModelConfig& model,
                                                               int64_t num_slots,
                                                               int64_t slots_per_req = 1);

/// A cache of `num_blocks` blocks for the layers of a model whose element type is `dtype`.
[[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout_of(const weights::ModelConfig& model,
                                                         int64_t num_blocks,
                                                         int64_t block_size,
                                                         DType dtype,
                                                         const kv_cache::CacheDType& cache);

}  // namespace reprise::runner
