#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {

/// How rotary frequencies are computed. Configs call `standard` "default". `none`: a model without
/// rotation. `factors` comes only from GGUF files; no config.json names it.
enum class RopeType : uint8_t { standard, linear, dynamic, yarn, longrope, llama3, factors, none };

[[nodiscard]] std::string_view rope_type_name(RopeType type) noexcept;

/// Rotary position embedding. Members after theta count only for the types in their comments.
struct RopeParameters {
  RopeType type = RopeType::standard;
  double theta = 10000.0;  // base of the frequencies, > 0
  /// The number of elements at the start of each head that are rotated; even. 0: all elements.
  int64_t rotary_dim = 0;
  /// The number of elements by which the exponents of the frequencies are divided; 0: rotary_dim.
  /// It is rotary_dim - 1 if the model's class rounds an odd number of elements up.
  int64_t frequency_dim = 0;
  /// Elements 2i and 2i + 1 rotate against each other, instead of i and rotary_dim / 2 + i.
  bool is_interleaved = false;
  double factor = 1.0;            // linear, dynamic, yarn, llama3: >= 1
  double low_freq_factor = 1.0;   // llama3: > 0
  double high_freq_factor = 4.0;  // llama3: >= low_freq_factor
  /// yarn, longrope, llama3: the positions of the unscaled model; dynamic: max_position_embeddings.
  int64_t original_max_position_embeddings = 0;
  double attention_factor = 1.0;  // yarn, longrope: multiplies cosines and sines
  double score_factor = 1.0;      // yarn: multiplies the scores of DeepSeek's models
  double beta_fast = 32.0;        // yarn
  double beta_slow = 1.0;         // yarn
  bool truncates = true;          // yarn: whole dimensions bound the blended ones
  // For factors, and for longrope up to the original positions.
  std::vector<double> frequency_factors;
  std::vector<double> long_factors;  // longrope beyond them

  bool operator==(const RopeParameters&) const = default;
};

/// How a model's class reads the members of its config.
struct RopeKeys {
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  std::string_view theta = "rope_theta";
  double default_theta = 10000.0;
  /// The member with the rotated part of a head; empty: the class rotates whole heads.
  std::string_view partial_factor = {};
  double default_partial_factor = 1.0;
  /// If the factor gives an odd number of elements, the class rotates one more.
  bool rounds_odd_up = false;
  bool is_interleaved = false;
  /// This class means longrope by names that other classes use for another type.
  bool yarn_means_longrope = false;
  /// The key of the object in `rope_parameters`, if that has one object for each type of layers.
  std::string_view layer_type = {};
};

/// The number of positions after the scaling of a rotation, from that in config.json. Source: vLLM
/// 0.32, _get_and_verify_max_len; there the types llama3 and longrope change nothing.
[[nodiscard]] int64_t scaled_positions(const RopeParameters& rope, int64_t max_position_embeddings);

/// Reads both spellings: `rope_theta` + `rope_scaling`, and the `rope_parameters` object that
/// transformers 5 writes. If both are given, the base of the latter and the scaling of
/// `rope_scaling` count. \throws FileError E_CONFIG naming the member.
[[nodiscard]] RopeParameters read_rope_parameters(const ConfigReader& config,
                                                  const RopeKeys& keys,
                                                  std::vector<std::string>& warnings);

}  // namespace reprise::weights
