#include "reprise/models/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reprise/base/assert.h"

namespace reprise::models {
namespace {

using weights::RopeParameters;
using weights::RopeType;

// Source of all scalings: Hugging Face transformers, modeling_rope_utils.py. The results are
// rounded to float32 where the reference uses it, so that the tables agree almost to the last bit.

// Llama 3.1: the frequencies of long wavelengths are divided by `factor`, those of short
// wavelengths stay, and those between are blended.
double llama3_frequency(const RopeParameters& rope, double frequency) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  // At this wavelength the blend below would have no share of unchanged frequencies. With equal
  // factors, as in Llama 4 Scout, no wavelengths lie between.
  if (wavelength >= original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN: frequencies with fewer than beta_slow turns over the original positions are divided by
// `factor`, those with more than beta_fast turns stay, and those between are blended.
double yarn_frequency(const RopeParameters& rope,
                      int64_t rotary_dim,
                      size_t pair,
                      double frequency) {
  const auto size = static_cast<double>(rotary_dim);
  const auto dimension_of = [&](double num_rotations) {
    const auto original = static_cast<double>(rope.original_max_position_embeddings);
    return size * std::log(original / (num_rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast);
  double high = dimension_of(rope.beta_slow);
  if (rope.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;  // as in the reference: no division by zero
  const double blend = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return frequency / rope.factor * blend + frequency * (1 - blend);
}

// Dynamic NTK: a larger base for texts that are longer than the trained positions.
double dynamic_theta(const RopeParameters& rope, int64_t rotary_dim, int64_t max_positions) {
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const double length = std::max(static_cast<double>(max_positions), original);
  const auto size = static_cast<double>(rotary_dim);
  return rope.theta *
         std::pow(rope.factor * length / original - (rope.factor - 1), size / (size - 2));
}

std::vector<float> frequencies_of(const RopeParameters& rope,
                                  int64_t rotary_dim,
                                  int64_t max_positions) {
  const bool has_dynamic_theta = rope.type == RopeType::dynamic && rotary_dim > 2;
  const double theta =
      has_dynamic_theta ? dynamic_theta(rope, rotary_dim, max_positions) : rope.theta;
  const bool is_long = max_positions > rope.original_max_position_embeddings;
  const auto divisor =
      static_cast<double>(rope.frequency_dim == 0 ? rotary_dim : rope.frequency_dim);
  std::vector<float> frequencies;
  for (int64_t pair = 0; pair < rotary_dim / 2; ++pair) {
    const auto i = static_cast<size_t>(pair);
    const double exponent = static_cast<double>(2 * pair) / divisor;
    double frequency = std::pow(theta, -exponent);
    switch (rope.type) {
      case RopeType::standard:
      case RopeType::dynamic:
      case RopeType::none:
        break;
      case RopeType::linear:
        frequency /= rope.factor;
        break;
      case RopeType::factors:
        frequency /= rope.frequency_factors[i];
        break;
      case RopeType::longrope:
        frequency /= is_long ? rope.long_factors[i] : rope.frequency_factors[i];
        break;
      case RopeType::yarn:
        frequency = yarn_frequency(rope, rotary_dim, i, frequency);
        break;
      case RopeType::llama3:
        frequency = llama3_frequency(rope, frequency);
        break;
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

// The factor of a query that is `distance` positions from the first one.
float factor_at(const weights::AttentionTemperature& temperature, int64_t distance) {
  const double floors = std::floor(static_cast<double>(distance) / temperature.floor_positions);
  return static_cast<float>(1.0 + temperature.scale * std::log1p(floors));
}

}  // namespace

std::vector<float> make_rope_table(const RopeParameters& rope,
                                   int64_t head_dim,
                                   int64_t max_positions) {
  const int64_t half = head_dim / 2;
  const int64_t rotary_dim = rope.rotary_dim == 0 ? head_dim : rope.rotary_dim;
  const std::vector<float> frequencies = frequencies_of(rope, rotary_dim, max_positions);
  const int64_t pairs = rotary_dim / 2;
  std::vector<float> table(static_cast<size_t>(max_positions * head_dim));
  for (int64_t position = 0; position < max_positions; ++position) {
    float* row = table.data() + position * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      // The angle is float32 as in the reference: at position 100,000 the rounding of this product
      // is the largest error of the table.
      const float angle =
          i < pairs ? static_cast<float>(position) * frequencies[static_cast<size_t>(i)] : 0.0F;
      const double factor = i < pairs ? rope.attention_factor : 1.0;
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * factor);
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * factor);
    }
  }
  return table;
}

std::vector<float> make_query_rope_table(const RopeParameters& rope,
                                         const weights::AttentionTemperature& temperature,
                                         int64_t head_dim,
                                         int64_t max_positions) {
  std::vector<float> table = make_rope_table(rope, head_dim, max_positions);
  for (int64_t position = 0; position < max_positions; ++position) {
    const float factor = factor_at(temperature, position);
    const auto row = table.begin() + position * head_dim;
    std::for_each(row, row + head_dim, [&](float& value) { value *= factor; });
  }
  return table;
}

std::vector<float> make_temperature_table(const weights::AttentionTemperature& temperature,
                                          int64_t head_dim,
                                          int64_t max_positions) {
  std::vector<float> table(static_cast<size_t>(max_positions * head_dim), 0.0F);
  for (int64_t position = 0; position < max_positions; ++position) {
    std::fill_n(
        table.begin() + position * head_dim, head_dim / 2, factor_at(temperature, position + 1));
  }
  return table;
}

std::vector<float> make_query_factor_table(const weights::AttentionTemperature& temperature,
                                           int64_t max_positions) {
  std::vector<float> table(static_cast<size_t>(max_positions * kFactorRow), 0.0F);
  for (int64_t position = 0; position < max_positions; ++position) {
    table[static_cast<size_t>(position * kFactorRow)] = factor_at(temperature, position);
  }
  return table;
}

}  // namespace reprise::models
