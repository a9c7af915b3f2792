#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"

namespace reprise::attention {

/// The constants of one attention layer.
struct AttentionShape {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;       // of values and results; 0: head_dim
  int64_t sliding_window = 0;  // 0 = none
  // The positions of a chunk. A token sees only its own chunk, and there is no window. 0: no
  // chunks.
  int64_t chunk_size = 0;
  float scale = 0;                // of scores; 0: 1 / sqrt(head_dim)
  float soft_cap = 0;             // of scaled scores; 0: none
  float k_scale = 1;              // of a float8 cache: it holds keys divided by k_scale,
  float v_scale = 1;              // and values divided by v_scale
  bool is_bidirectional = false;  // a token sees positions after its own too
};

/// The memory that attention layers read from earlier tokens. A layer uses one of the two members.
struct LayerCaches {
  const kv_cache::KvCacheTensors* kv_cache = nullptr;
  const kv_cache::StateCacheTensors* states = nullptr;
  std::span<const Tensor> counters = {};  // further states of programs, which count
};

/// The attention of one layer and its part of a cache. The kinds of layers differ in what they
/// cache: KeyValueAttention, LatentAttention and RecurrentLayer. In each step a layer of the first
/// two kinds writes its part of the cache, then computes attention with the path that the
/// AttentionBackend chose. The write is part of the captured piece; only attention itself is a
/// split point.
class AttentionLayer {
 public:
  /// Sets the caches. Their sizes are known only after the model exists. They must outlive the
  /// layer.
  void bind_caches(const LayerCaches& caches) noexcept { caches_ = caches; }

  /// All zeros for a recurrent layer.
  [[nodiscard]] const AttentionShape& shape() const noexcept { return shape_; }

 protected:
  /// `layer_index`: the place of the layer among those of the same cache.
  /// \pre bind_caches before the first step
  AttentionLayer(const AttentionShape& shape, int64_t layer_index)
      : shape_(shape), layer_index_(layer_index) {
    if (shape_.scale == 0 && shape_.head_dim > 0) {
      shape_.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
    }
    if (shape_.value_dim == 0) shape_.value_dim = shape_.head_dim;
  }
  ~AttentionLayer() = default;

  /// nullptr in a profile run
  [[nodiscard]] const kv_cache::KvCacheTensors* cache() const noexcept { return caches_.kv_cache; }
  [[nodiscard]] const kv_cache::StateCacheTensors* states() const noexcept {
    return caches_.states;
  }
  [[nodiscard]] int64_t layer_index() const noexcept { return layer_index_; }

 private:
  AttentionShape shape_;
  int64_t layer_index_;
  LayerCaches caches_;
};

}  // namespace reprise::attention
