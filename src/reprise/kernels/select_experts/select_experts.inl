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

// Replaces logits by their sigmoids.
inline void take_sigmoids(float* logits, int64_t count) {
  const Vec one = broadcast(1.0F);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int rest = lanes_at(i, count);
    const Vec power = exp(sub(zero(), load_some(logits + i, rest)));
    store_some(logits + i, div(one, add(one, power)), rest);
  }
}

// Replaces logits by their softmax.
inline void take_softmax(float* logits, int64_t count) {
  const bool none_is_taken[kMaxExperts] = {};
  const float total =
      exponentiate(logits, count, logits[largest_free(logits, none_is_taken, count)]);
  for (int64_t i = 0; i < count; ++i) logits[i] /= total;
}

// How much a group of experts counts: as its best expert, or as its two best experts.
inline float score_of_group(const float* choices, int64_t size, bool counts_two) {
  float best = choices[0];
  float second = -__builtin_inff();
  for (int64_t i = 1; i < size; ++i) {
    if (choices[i] > best) {
      second = best;
      best = choices[i];
    } else if (choices[i] > second) {
      second = choices[i];
    }
  }
  return counts_two ? best + second : best;
}

// Marks the experts of all groups but the top_groups best ones.
inline void exclude_groups(const SelectExpertsArguments& a,
                           const float* choices,
                           bool counts_two,
                           bool* is_taken) {
  const int64_t size = a.tiles.width / a.groups;
  float scores[kMaxExperts];
  bool is_chosen[kMaxExperts] = {};
  for (int64_t group = 0; group < a.groups; ++group) {
    scores[group] = score_of_group(choices + group * size, size, counts_two);
  }
  for (int64_t i = 0; i < a.top_groups; ++i) {
    is_chosen[largest_free(scores, is_chosen, a.groups)] = true;
  }
  for (int64_t i = 0; i < a.tiles.width; ++i) is_taken[i] = !is_chosen[i / size];
}

template <typename T>
inline void choose_by_logits(const SelectExpertsArguments& a,
                             const T* row,
                             float* weights,
                             int32_t* experts) {
  const int64_t num_experts = a.tiles.width;
  float logits[kMaxExperts];
  bool is_taken[kMaxExperts] = {};
  for (int64_t i = 0; i < num_experts; ++i) logits[i] = to_float(row[i]);
  for (int64_t k = 0; k < a.top_k; ++k) {
    experts[k] = largest_free(logits, is_taken, num_experts);
    is_taken[experts[k]] = true;
    weights[k] = a.function == OpFunction::ones ? a.scale : logits[experts[k]];
  }
  if (a.function == OpFunction::ones) return;
  const bool is_over_all = a.function == OpFunction::softmax_of_all;
  const float largest = weights[0];
  const float total_of_all = is_over_all ? exponentiate(logits, num_experts, largest) : 0.0F;
  const float total_of_chosen = exponentiate(weights, a.top_k, largest);
  const float total = is_over_all ? total_of_all : total_of_chosen;
  for (int64_t k = 0; k < a.top_k; ++k) weights[k] = weights[k] / total * a.scale;
}

template <typename T>
inline void choose_by_scores(const SelectExpertsArguments& a,
                             const T* row,
                             float* weights,
                             int32_t* experts) {
  const int64_t num_experts = a.tiles.width;
  const bool is_sigmoid = has_sigmoids(a.function);
  float scores[kMaxExperts];
  for (int64_t i = 0; i < num_experts; ++i) scores[i] = to_float(row[i]);
  float choices[kMaxExperts];
  if (is_sigmoid) {
    take_sigmoids(scores, num_experts);
  } else {
    take_softmax(scores, num_experts);
  }
  const bool has_bias = a.bias != nullptr;
  for (int64_t i = 0; i < num_experts; ++i) choices[i] = scores[i] + (has_bias ? a.bias[i] : 0);
  bool is_taken[kMaxExperts];
  exclude_groups(a, choices, is_sigmoid, is_taken);
  float total = 0;
  for (int64_t k = 0; k < a.top_k; ++k) {
    experts[k] = largest_free(choices, is_taken, num_experts);
    is_taken[experts[k]] = true;
    weights[k] = scores[experts[k]];
    total += weights[k];
  }
  // The small number is that of the published model: it avoids a division by zero.
  const float factor = divides_by_sum(a.function) ? a.scale / (total + 1e-20F) : a.scale;
  for (int64_t k = 0; k < a.top_k; ++k) weights[k] *= factor;
}

template <typename T>
void run_select_experts(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SelectExpertsArguments*>(args);
  const auto choose = chooses_by_logits(a.function) ? choose_by_logits<T> : choose_by_scores<T>;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      choose(a,
             static_cast<const T*>(a.logits) + row_offset(a.layout, row),
             a.weights + row * a.top_k,
             a.experts + row * a.top_k);
    }
  }
}
