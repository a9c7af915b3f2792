#pragma once

#include <cstdint>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/config/rope_parameters.h"

namespace reprise::models {

/// Cosines and sines of every position: row p holds head_dim/2 cosines and head_dim/2 sines of
/// p * frequency_i. Angles are float32 products, as in the reference implementation. Pairs of
/// elements that are not rotated have the frequency 0. Frequencies follow Hugging Face.
///
/// Two rope types depend on the length of the text. A table serves all texts, so their length is
/// that of the longest one, `max_positions`: `dynamic` and `longrope` change their frequencies only
/// if the model is loaded for more positions than the original ones.
[[nodiscard]] std::vector<float> make_rope_table(const weights::RopeParameters& rope,
                                                 int64_t head_dim,
                                                 int64_t max_positions);

/// The same for queries that are also multiplied by a number for each position.
[[nodiscard]] std::vector<float> make_query_rope_table(
    const weights::RopeParameters& rope,
    const weights::AttentionTemperature& temperature,
    int64_t head_dim,
    int64_t max_positions);

/// A table that multiplies by a number for each position, without a rotation.
[[nodiscard]] std::vector<float> make_temperature_table(
    const weights::AttentionTemperature& temperature, int64_t head_dim, int64_t max_positions);

/// The same for latent attention, for heads of any size: the op `rope` reads a query as pairs of
/// numbers, and each pair as a head. Row p is the factor, then 0.
inline constexpr int64_t kFactorRow = 2;
[[nodiscard]] std::vector<float> make_query_factor_table(
    const weights::AttentionTemperature& temperature, int64_t max_positions);

}  // namespace reprise::models
