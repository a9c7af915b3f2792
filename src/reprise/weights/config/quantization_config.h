#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {

/// The formats of quantised checkpoints that can be read.
enum class QuantizationMethod : uint8_t {
  none,
  gptq,
  awq,
  fp8,
  compressed_tensors,
  bitsandbytes,
  modelopt,
};

/// "gptq"
[[nodiscard]] std::string_view quantization_method_name(QuantizationMethod method) noexcept;

/// The `quantization_config` of a config.json.
struct QuantizationConfig {
  QuantizationMethod method = QuantizationMethod::none;
  int bits = 16;
  // Number of elements of a row that share a scale; 0: the whole row.
  int64_t group_size = 0;
  bool stores_zeros_minus_1 = false;  // GPTQ's first version
  // fp8 and compressed-tensors: the rows and columns of the blocks of a matrix that share a scale;
  // 0: no such blocks.
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  // compressed-tensors: all groups quantise activations to int8 with one scale per token, computed
  // while the model runs.
  bool has_int8_tokens = false;
  /// The same with one scale for each projection, stored in the checkpoint ("input_scale").
  bool has_static_int8 = false;
  /// compressed-tensors: float8 weights meet activations that are not quantised (W8A16). Otherwise
  /// checkpoints in float8 are made for activations in float8 (W8A8).
  bool keeps_activations = false;
  bool has_float8_cache = false;  // the checkpoint contains scales of a float8 KV cache

  bool operator==(const QuantizationConfig&) const = default;
};

/// Puts the content of ModelOpt's hf_quant_config.json into a config.json without a
/// quantization_config. Does nothing if `file` has no member "quantization".
void add_modelopt_config(Json& config, const Json& file);

/// Reads the member `quantization_config` of the object. \throws FileError E_CONFIG naming the
/// member that cannot be read
[[nodiscard]] QuantizationConfig read_quantization_config(const ConfigReader& reader);

}  // namespace reprise::weights
