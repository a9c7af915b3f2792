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

/// The description of a model's attention, for its runner.
namespace reprise::runner {

/// The kinds of a model's layers: first that of its attention layers, then that of its recurrent
/// layers.
[[nodiscard]] std::vector<attention::AttentionKind> layer_kinds_of(
    const weights::ModelConfig& model);
/// The first of these kinds. Users may choose its backend.
[[nodiscard]] attention::AttentionKind attention_kind_of(const weights::ModelConfig& model);

/// The backend of each kind of layers, with the layers that it serves. The first kind has the
/// backend `chosen`, or the default for "auto"; the second kind always has the default.
[[nodiscard]] std::vector<attention::LayerBackend> layer_backends(
    const weights::ModelConfig& model, const attention::BackendInfo* chosen = nullptr);

/// The same for the resolution of the mode, with the layers as text: "0-2, 4".
[[nodiscard]] std::vector<cudagraph::AttentionBackendSupport> attention_groups(
    std::span<const attention::LayerBackend> backends);

/// The layout of `num_slots` slots, for requests and snapshots; the null slot is not counted.
/// Without recurrent layers the layout has no layers.
[[nodiscard]] kv_cache::StateCacheLayout state_cache_layout_of(const weights::ModelConfig& model,
                                                               int64_t num_slots,
                                                               int64_t slots_per_req = 1);

/// The layout of a cache of `num_blocks` blocks for a model whose element type is `dtype`.
[[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout_of(const weights::ModelConfig& model,
                                                         int64_t num_blocks,
                                                         int64_t block_size,
                                                         DType dtype,
                                                         const kv_cache::CacheDType& cache);

}  // namespace reprise::runner
