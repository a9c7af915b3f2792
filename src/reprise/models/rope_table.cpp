#include "reprise/models/rope_table.h"

#include <cmath>
#include <numbers>

namespace reprise::models {
namespace {

// Source: Llama 3.1 as published in Hugging Face transformers (modeling_rope_utils, "llama3"): the
// frequencies of long wavelengths are divided by `factor`, those of short wavelengths stay, and
// those between are blended. The results are rounded to float32 where the reference uses it, so
// that the tables agree almost to the last bit.
double scaled_frequency(const weights::RopeParameters& rope, size_t pair, double frequency) {
  switch (rope.type) {
    case weights::RopeType::standard:
      return frequency;
    case weights::RopeType::linear:
      return frequency / rope.factor;
    case weights::RopeType::factors:
      return frequency / rope.frequency_factors[pair];
    case weights::RopeType::llama3:
      break;
  }
  const double original = static_cast<double>(rope.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> make_rope_table(const weights::RopeParameters& rope,
                                   int64_t head_dim,
                                   int64_t max_positions) {
  const int64_t half = head_dim / 2;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    frequencies.push_back(static_cast<float>(
        scaled_frequency(rope, static_cast<size_t>(i), std::pow(rope.theta, -exponent))));
  }
  std::vector<float> table(static_cast<size_t>(max_positions * head_dim));
  for (int64_t position = 0; position < max_positions; ++position) {
    float* row = table.data() + position * head_dim;
    for (int64_t i = 0; i < half; ++i) {
      // The angle is float32 as in the reference: at position 100,000 the rounding of this product
      // is the largest error of the table.
      const float angle = static_cast<float>(position) * frequencies[static_cast<size_t>(i)];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return table;
}

}  // namespace reprise::models
