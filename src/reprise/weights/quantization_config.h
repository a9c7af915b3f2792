#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/weights/config_reader.h"

namespace reprise::weights {

/// The formats of quantised checkpoints that can be read.
enum class QuantizationMethod : uint8_t { none, gptq, awq };

/// "gptq"
[[nodiscard]] std::string_view quantization_method_name(QuantizationMethod method) noexcept;

/// The `quantization_config` of a config.json.
struct QuantizationConfig {
  QuantizationMethod method = QuantizationMethod::none;
  int bits = 16;
  int64_t group_size = 0;             // elements of a row with one scale; 0: the whole row
  bool stores_zeros_minus_1 = false;  // GPTQ's first version

  bool operator==(const QuantizationConfig&) const = default;
};

/// Reads the member `quantization_config` of the object. \throws FileError E_CONFIG with the member
/// that cannot be read
[[nodiscard]] QuantizationConfig read_quantization_config(const ConfigReader& reader);

}  // namespace reprise::weights
