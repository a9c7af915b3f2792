#pragma once

#include "reprise/kernels/combine_experts/combine_experts_arguments.h"
#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/scale_experts/scale_experts_arguments.h"
#include "reprise/kernels/select_experts/select_experts_arguments.h"

// Mixtures of experts. A warp routes a token. The grids depend only on the shapes.
namespace reprise::kernels::cuda {

inline constexpr float kMinusInfinity = -__builtin_inff();

/// The order of experts: by value, and of equal values the lower index first. A NaN comes last. All
/// keys of a row differ, and none is 0.
REPRISE_DEVICE uint64_t expert_key(float value, int64_t index) {
  const uint32_t bits = ordered_bits(value == value ? value : kMinusInfinity);
  return (uint64_t{bits} << 32) | (0xffffffffU - static_cast<uint32_t>(index));
}
REPRISE_DEVICE int32_t expert_of(uint64_t key) {
  return static_cast<int32_t>(0xffffffffU - static_cast<uint32_t>(key));
}

/// The largest key below `limit` of value(0) to value(count - 1), for all lanes of a warp.
template <typename Value>
REPRISE_DEVICE uint64_t next_key(int64_t count, uint64_t limit, const Value& value) {
  uint64_t best = 0;
  for (int64_t i = lane_index(); i < count; i += kWarpSize) {
    const uint64_t key = expert_key(value(i), i);
    if (key < limit && key > best) best = key;
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    const uint64_t other = shuffle_xor(best, mask);
    best = other > best ? other : best;
  }
  return best;
}

/// Writes the top_k best experts in their order, with weight_of(expert). Returns the sum of the
/// weights, for all lanes.
template <typename Value, typename Weight>
REPRISE_DEVICE float choose_experts(int64_t count,
                                    int64_t top_k,
                                    float* weights,
                                    int32_t* experts,
                                    const Value& value,
                                    const Weight& weight_of) {
  float total = 0;
  uint64_t key = ~uint64_t{0};
  for (int64_t k = 0; k < top_k; ++k) {
    key = next_key(count, key, value);
    const float weight = weight_of(expert_of(key));
    total += weight;
    if (lane_index() != 0) continue;
    experts[k] = expert_of(key);
    weights[k] = weight;
  }
  return total;
}

/// The sum of exp(logit - largest) over a row, for all lanes.
template <typename Logit>
REPRISE_DEVICE float sum_of_powers(int64_t count, float largest, const Logit& logit) {
  float sum = 0;
  for (int64_t i = lane_index(); i < count; i += kWarpSize) sum += exponential(logit(i) - largest);
  return warp_sum(sum);
}

/// Experts fit into kWidestWarpRow columns, so the team of each row is a warp.
static_assert(kMaxExperts <= kWidestWarpRow);

template <typename T>
REPRISE_DEVICE void choose_by_logits(const SelectExpertsArguments& a) {
  const int64_t count = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), count, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.logits) + row_offset(a.layout, row);
    float* weights = a.weights + row * a.top_k;
    int32_t* experts = a.experts + row * a.top_k;
    const auto logit = [&](int64_t i) { return as_float(x[i]); };
    if (a.function == OpFunction::ones) {
      choose_experts(count, a.top_k, weights, experts, logit, [&](int64_t) { return a.scale; });
      return;
    }
    const float largest = logit(expert_of(next_key(count, ~uint64_t{0}, logit)));
    const auto power = [&](int64_t i) { return exponential(logit(i) - largest); };
    float total = choose_experts(count, a.top_k, weights, experts, logit, power);
    if (a.function == OpFunction::softmax_of_all) total = sum_of_powers(count, largest, logit);
    if (team.rank != 0) return;
    for (int64_t k = 0; k < a.top_k; ++k) weights[k] = weights[k] / total * a.scale;
  });
}

/// How much a group of experts counts: as its best expert, or as its two best experts.
REPRISE_DEVICE float score_of_group(const float* choices, int64_t size, bool counts_two) {
  float best = choices[0];
  float second = kMinusInfinity;
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

/// Experts of all groups but the top_groups best ones become the worst choices. `choices` is shared
/// by a warp.
REPRISE_DEVICE void exclude_groups(const SelectExpertsArguments& a,
                                   float* choices,
                                   bool counts_two) {
  const int64_t size = a.tiles.width / a.groups;
  const auto score = [&](int64_t group) {
    return score_of_group(choices + group * size, size, counts_two);
  };
  uint64_t worst_chosen = ~uint64_t{0};
  for (int64_t i = 0; i < a.top_groups; ++i) worst_chosen = next_key(a.groups, worst_chosen, score);
  for (int64_t group = lane_index(); group < a.groups; group += kWarpSize) {
    if (expert_key(score(group), group) >= worst_chosen) continue;
    for (int64_t i = 0; i < size; ++i) choices[group * size + i] = kMinusInfinity;
  }
}

static_assert(8 * kMaxExperts * sizeof(float) == 32768);  // the shared memory of eight warps
template <typename T>
REPRISE_DEVICE void choose_by_scores(const SelectExpertsArguments& a) {
  const int64_t count = a.tiles.width;
  const bool is_sigmoid = has_sigmoids(a.function);
  float* choices = reinterpret_cast<float*>(shared_memory()) + warp_index() * kMaxExperts;
  for_each_row(row_tile(a.tiles, block_index()), count, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.logits) + row_offset(a.layout, row);
    float* weights = a.weights + row * a.top_k;
    const auto logit = [&](int64_t i) { return as_float(x[i]); };
    const bool has_bias = a.bias != nullptr;
    float largest = 0;
    float total = 1;
    if (!is_sigmoid) {
      largest = logit(expert_of(next_key(count, ~uint64_t{0}, logit)));
      total = sum_of_powers(count, largest, logit);
    }
    const auto score = [&](int64_t i) {
      return is_sigmoid ? sigmoid(logit(i)) : exponential(logit(i) - largest) / total;
    };
    sync_warp();  // the choices of the row before may still be read
    for (int64_t i = team.rank; i < count; i += team.size) {
      choices[i] = score(i) + (has_bias ? a.bias[i] : 0.0F);
    }
    sync_warp();
    exclude_groups(a, choices, is_sigmoid);
    sync_warp();
    const auto choice = [&](int64_t i) { return choices[i]; };
    const float chosen =
        choose_experts(count, a.top_k, weights, a.experts + row * a.top_k, choice, score);
    if (team.rank != 0) return;
    // The small number is that of the published model: it avoids a division by zero.
    const float factor = divides_by_sum(a.function) ? a.scale / (chosen + 1e-20F) : a.scale;
    for (int64_t k = 0; k < a.top_k; ++k) weights[k] *= factor;
  });
}

template <typename T>
REPRISE_DEVICE void select_experts(const SelectExpertsArguments& a) {
  if (chooses_by_logits(a.function)) {
    choose_by_logits<T>(a);
  } else {
    choose_by_scores<T>(a);
  }
}

/// A block has some columns of one expert. It looks for the rows of its expert, and a warp computes
/// one column of a row.
template <typename T>
REPRISE_DEVICE void expert_linear(const ExpertLinearArguments& a) {
  const int64_t tiles = ceil_div(a.columns, a.columns_per_block);
  const int64_t expert = block_index() / tiles;
  const int64_t first = block_index() % tiles * a.columns_per_block;
  const int64_t end = min_of(first + a.columns_per_block, a.columns);
  const T* weight = static_cast<const T*>(a.weight) + expert * a.columns * a.depth;
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t chosen = a.experts[row];
    // Another rank has the expert of such a row. Its weight is 0, so it must only be a number.
    const bool is_cleared = chosen < 0 && expert == 0;
    if (chosen != expert && !is_cleared) continue;
    const T* x = static_cast<const T*>(a.x) + row / a.rows_per_x * a.x_stride;
    for (int64_t column = first + warp_index(); column < end; column += num_warps()) {
      float sum = is_cleared ? 0.0F : dot(x, weight + column * a.depth, a.depth);
      if (lane_index() != 0) continue;
      if (a.bias != nullptr && !is_cleared) {
        sum += as_float(static_cast<const T*>(a.bias)[expert * a.columns + column]);
      }
      put(static_cast<T*>(a.out) + row * a.columns + column, sum);
    }
  }
}

template <typename T>
REPRISE_DEVICE void scale_experts(const ScaleExpertsArguments& a) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    const int64_t first = row * a.tiles.width + column;
    for (int64_t i = first; i < first + count; ++i) {
      const int32_t expert = a.experts[i];
      const float scale = expert < 0 ? 0.0F : as_float(static_cast<const T*>(a.scales)[expert]);
      a.out[i] = a.weights[i] * scale;
    }
  });
}

template <typename T>
REPRISE_DEVICE void combine_experts(const CombineExpertsArguments& a) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    float totals[kColumns] = {};
    for (int64_t k = row * a.top_k; k < (row + 1) * a.top_k; ++k) {
      float values[kColumns];
      load_columns(static_cast<const T*>(a.x) + k * a.x_stride + column, count, values);
      for (int i = 0; i < kColumns; ++i) {
        totals[i] = multiply_add(a.weights[k], values[i], totals[i]);
      }
    }
    store_columns(static_cast<T*>(a.out) + row * a.tiles.width + column, count, totals);
  });
}

}  // namespace reprise::kernels::cuda
