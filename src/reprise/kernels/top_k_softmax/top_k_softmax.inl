// Replaces logits by exp(logit - largest) and returns their sum, in the order of the experts.
inline float exponentiate(float* logits, int64_t count, float largest) {
  Vec total = zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    const int rest = lanes_at(i, count);
    const Vec power = exp(sub(load_some(logits + i, rest), broadcast(largest)));
    total = add(total, keep_lanes(power, 0, rest, 0.0F));
    store_some(logits + i, power, rest);
  }
  return sum(total);
}

// The largest of the logits that are not taken; the first of them if none is larger. A NaN is never
// larger.
inline int32_t largest_free(const float* logits, const bool* is_taken, int64_t count) {
  int64_t best = 0;
  while (is_taken[best]) ++best;
  for (int64_t i = best + 1; i < count; ++i) {
    if (!is_taken[i] && logits[i] > logits[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

// The weight of a chosen expert: its part of a softmax, or 1.
enum class RouteWeights { of_all, of_chosen, ones };

template <typename T, RouteWeights kWeights>
inline void route_row(
    const T* row, int64_t num_experts, int64_t top_k, float* weights, int32_t* experts) {
  float logits[kMaxExperts];
  bool is_taken[kMaxExperts] = {};
  for (int64_t i = 0; i < num_experts; ++i) logits[i] = to_float(row[i]);
  for (int64_t k = 0; k < top_k; ++k) {
    experts[k] = largest_free(logits, is_taken, num_experts);
    is_taken[experts[k]] = true;
    weights[k] = kWeights == RouteWeights::ones ? 1.0F : logits[experts[k]];
  }
  if constexpr (kWeights == RouteWeights::ones) return;
  constexpr bool kOverAll = kWeights == RouteWeights::of_all;
  const float largest = weights[0];
  const float total_of_all = kOverAll ? exponentiate(logits, num_experts, largest) : 0.0F;
  const float total_of_chosen = exponentiate(weights, top_k, largest);
  const float total = kOverAll ? total_of_all : total_of_chosen;
  for (int64_t k = 0; k < top_k; ++k) weights[k] /= total;
}

template <typename T, RouteWeights kWeights>
inline void route(const void* args, device::BlockRange blocks) {
  const auto& a = *static_cast<const TopKSoftmaxArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      route_row<T, kWeights>(static_cast<const T*>(a.logits) + row_offset(a.layout, row),
                             a.tiles.width,
                             a.top_k,
                             a.weights + row * a.top_k,
                             a.experts + row * a.top_k);
    }
  }
}

template <typename T>
void run_softmax_top_k(const void* args, device::BlockRange blocks) noexcept {
  route<T, RouteWeights::of_all>(args, blocks);
}
template <typename T>
void run_top_k_softmax(const void* args, device::BlockRange blocks) noexcept {
  route<T, RouteWeights::of_chosen>(args, blocks);
}
template <typename T>
void run_top_k_ones(const void* args, device::BlockRange blocks) noexcept {
  route<T, RouteWeights::ones>(args, blocks);
}
