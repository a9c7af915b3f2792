#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config_reader.h"

namespace reprise::weights {

/// How rotary frequencies are derived. `standard` is the type that configs call "default";
/// `factors` is the one of GGUF files, which no config.json names.
enum class RopeType : uint8_t { standard, linear, llama3, factors };

[[nodiscard]] std::string_view rope_type_name(RopeType type) noexcept;

/// Rotary position embedding; members beyond theta count only for the types that name them.
struct RopeParameters {
  RopeType type = RopeType::standard;
  double theta = 10000.0;                        // base of the frequencies, > 0
  double factor = 1.0;                           // linear, llama3: >= 1
  double low_freq_factor = 1.0;                  // llama3: > 0
  double high_freq_factor = 4.0;                 // llama3: > low_freq_factor
  int64_t original_max_position_embeddings = 0;  // llama3: positions of the unscaled model
  std::vector<double> frequency_factors;         // factors: divisor of each frequency, > 0

  bool operator==(const RopeParameters&) const = default;
};

/// Reads both spellings: `rope_theta` + `rope_scaling`, and the `rope_parameters` object that
/// transformers 5 writes, which wins where both are given.
/// \throws FileError E_CONFIG naming the member.
[[nodiscard]] RopeParameters read_rope_parameters(const ConfigReader& config,
                                                  std::vector<std::string>& warnings);

}  // namespace reprise::weights
