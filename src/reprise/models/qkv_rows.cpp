#include "reprise/models/qkv_rows.h"

#include <iterator>
#include <numeric>

namespace reprise::models {
namespace {

std::vector<int64_t> counting(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int64_t> head_order(const weights::ModelConfig& config, int64_t layer) {
  const int64_t head_dim = config.heads_of_layer(layer).head_dim;
  return config.rotates(layer) ? rotated_head_order(config.rope_of_layer(layer), head_dim)
                               : counting(head_dim);
}

// The first stored row of each head: first the heads of q, then those of k, of v and of the gates.
std::vector<int64_t> first_rows(const weights::ModelConfig& config, int64_t layer) {
  const int64_t heads = config.query_heads_of_layer(layer);
  const auto [kv_heads, head_dim] = config.heads_of_layer(layer);
  if (config.has_attention_gate) {
    // In the checkpoint each head of q has its gates after it. Here the gates of all heads come
    // last.
    std::vector<int64_t> rows;
    for (int64_t head = 0; head < heads; ++head) rows.push_back(2 * head);
    for (int64_t head = 0; head < 2 * kv_heads; ++head) rows.push_back(2 * heads + head);
    for (int64_t head = 0; head < heads; ++head) rows.push_back(2 * head + 1);
    for (int64_t& row : rows) row *= head_dim;
    return rows;
  }
  if (config.qkv_layout == weights::QkvLayout::separate ||
      config.qkv_layout == weights::QkvLayout::stacked) {
    const int64_t value_dim = config.value_dim_of_layer(layer);
    std::vector<int64_t> rows = counting(heads + kv_heads);
    for (int64_t& row : rows) row *= head_dim;
    for (int64_t head = 0; head < kv_heads; ++head) {
      rows.push_back((heads + kv_heads) * head_dim + head * value_dim);
    }
    return rows;
  }
  // A group is the q heads that share one head of k and v, followed by these two; in per_head a
  // group has one q head.
  const int64_t group = heads / kv_heads;
  std::vector<int64_t> rows;
  for (int64_t head = 0; head < heads; ++head) {
    rows.push_back((head / group * (group + 2) + head % group) * head_dim);
  }
  for (int64_t part : {group, group + 1}) {
    for (int64_t head = 0; head < kv_heads; ++head) {
      rows.push_back((head * (group + 2) + part) * head_dim);
    }
  }
  return rows;
}

}  // namespace

std::vector<int64_t> rotated_head_order(const weights::RopeParameters& rope, int64_t head_dim) {
  const int64_t rotary_dim = rope.rotary_dim == 0 ? head_dim : rope.rotary_dim;
  const int64_t half = head_dim / 2;
  const int64_t pairs = rotary_dim / 2;
  const int64_t rest = half - pairs;  // pairs of elements that are not rotated
  std::vector<int64_t> order(static_cast<size_t>(head_dim));
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = i;
    int64_t second = pairs + i;
    if (i >= pairs) {
      first = rotary_dim + (i - pairs);
      second = first + rest;
    } else if (rope.is_interleaved) {
      first = 2 * i;
      second = 2 * i + 1;
    }
    order[static_cast<size_t>(i)] = first;
    order[static_cast<size_t>(half + i)] = second;
  }
  return order;
}

std::vector<int64_t> qkv_rows(const weights::ModelConfig& config, int64_t layer) {
  const std::vector<int64_t> rotated = head_order(config, layer);
  const auto [kv_heads, head_dim] = config.heads_of_layer(layer);
  const int64_t num_rotated = config.query_heads_of_layer(layer) + kv_heads;
  std::vector<int64_t> rows;
  int64_t head = 0;
  for (const int64_t first : first_rows(config, layer)) {
    const bool is_value = head >= num_rotated && head < num_rotated + kv_heads;
    const int64_t size = is_value ? config.value_dim_of_layer(layer) : head_dim;
    for (int64_t i = 0; i < size; ++i) {
      rows.push_back(first + (head < num_rotated ? rotated[static_cast<size_t>(i)] : i));
    }
    ++head;
  }
  if (rows == counting(static_cast<int64_t>(rows.size()))) rows.clear();
  return rows;
}

std::vector<int64_t> head_norm_rows(const weights::ModelConfig& config,
                                    int64_t layer,
                                    int64_t num_heads) {
  const std::vector<int64_t> order = head_order(config, layer);
  std::vector<int64_t> rows;
  for (int64_t head = 0; head < num_heads; ++head) {
    for (const int64_t element : order) {
      rows.push_back(head * std::ssize(order) + element);
    }
  }
  if (rows == counting(static_cast<int64_t>(rows.size()))) rows.clear();
  return rows;
}

}  // namespace reprise::models
