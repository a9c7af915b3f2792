#include "reprise/models/alibi_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reprise/base/element.h"

namespace reprise::models {
namespace {

float rounded_to_bf16(double value) {
  BFloat16 rounded{};
  store_element(&rounded, static_cast<float>(value));
  return to_float(rounded);
}

// The slopes for n heads are the powers 1 to n of 2^(-8/n), if n is a power of two. For another
// number of heads, n is the next smaller power of two, and the other heads get every second slope
// for 2n heads. Source: Press et al., "Train Short, Test Long" (2021), and its program for other
// numbers of heads.
std::vector<float> slopes_of(int64_t num_heads) {
  const auto power_of_two = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  std::vector<float> slopes;
  for (int64_t head = 0; head < num_heads; ++head) {
    const bool is_first = head < power_of_two;
    const int64_t count = is_first ? power_of_two : 2 * power_of_two;
    const int64_t power = is_first ? head + 1 : 2 * (head - power_of_two) + 1;
    const auto base = static_cast<float>(std::exp2(-8.0 / static_cast<double>(count)));
    slopes.push_back(rounded_to_bf16(std::pow(base, static_cast<double>(power))));
  }
  return slopes;
}

}  // namespace

std::vector<float> make_alibi_table(const weights::ModelConfig& config, int64_t max_positions) {
  const int64_t num_heads = config.num_attention_heads;  // of this rank
  const std::vector<float> slopes = slopes_of(num_heads * config.tensor_parallel_size);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(num_heads * max_positions));
  for (int64_t head = 0; head < num_heads; ++head) {
    const float slope = slopes[static_cast<size_t>(config.tensor_rank * num_heads + head)];
    for (int64_t position = 0; position < max_positions; ++position) {
      table.push_back(rounded_to_bf16(slope * rounded_to_bf16(static_cast<double>(position))));
    }
  }
  return table;
}

}  // namespace reprise::models
