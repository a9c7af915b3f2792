#include "reprise/weights/config/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 24;

int64_t read_group_size(const ConfigReader& reader, std::string_view key) {
  const int64_t size = reader.integer(key, -1, kMostElements).value_or(128);
  if (size == 0) reader.fail(key, "is 0; expected a number of elements, or -1 for whole rows");
  return size == -1 ? 0 : size;
}

int read_bits(const ConfigReader& reader, std::string_view key, bool may_be_8) {
  const int64_t bits = reader.required_integer(key, 1, 64);
  if (bits != 4 && !(may_be_8 && bits == 8)) {
    reader.fail(key, fmt::format("is {}; supported: 4{}", bits, may_be_8 ? ", 8" : ""));
  }
  return static_cast<int>(bits);
}

QuantizationConfig read_gptq(const ConfigReader& reader) {
  const std::string format = reader.string("checkpoint_format").value_or("gptq");
  if (format != "gptq" && format != "gptq_v2") {
    reader.fail("checkpoint_format",
                fmt::format("'{}' is not supported; supported: gptq, gptq_v2", visible(format)));
  }
  return {.method = QuantizationMethod::gptq,
          .bits = read_bits(reader, "bits", true),
          .group_size = read_group_size(reader, "group_size"),
          .stores_zeros_minus_1 = format == "gptq"};
}

QuantizationConfig read_awq(const ConfigReader& reader) {
  // autoawq writes "version"; other tools write "format".
  const std::string version =
      reader.string("version").value_or(reader.string("format").value_or("gemm"));
  if (version != "gemm" && version != "GEMM") {
    reader.fail("version", fmt::format("'{}' is not supported; supported: gemm", visible(version)));
  }
  const std::string_view bits = reader.find("bits") != nullptr ? "bits" : "w_bit";
  const std::string_view group =
      reader.find("group_size") != nullptr ? "group_size" : "q_group_size";
  return {.method = QuantizationMethod::awq,
          .bits = read_bits(reader, bits, false),
          .group_size = read_group_size(reader, group)};
}

// AutoRound packs weights as GPTQ or AWQ do. `extra_config` names layers with other settings:
// layers that kept their numbers (16 bits and more) are known by their tensors, others are refused.
void require_equal_layers(const ConfigReader& reader, const QuantizationConfig& config) {
  const std::optional<ConfigReader> layers = reader.object("extra_config");
  if (!layers) return;
  constexpr int64_t kFloatBits = 16;
  for (const auto& [name, settings] : reader.find("extra_config")->items()) {
    const std::optional<ConfigReader> layer = layers->object(name);
    if (!layer) continue;
    const int64_t bits = layer->integer("bits", 1, 64).value_or(config.bits);
    if (bits >= kFloatBits) continue;
    const bool has_group = layer->find("group_size") != nullptr;
    if (bits == config.bits &&
        (!has_group || read_group_size(*layer, "group_size") == config.group_size)) {
      continue;
    }
    reader.fail("extra_config",
                fmt::format("'{}' has other bits or another group_size than the rest of the model, "
                            "which is not supported",
                            visible(name)));
  }
}

QuantizationConfig read_auto_round(const ConfigReader& reader) {
  const std::string type = reader.string("data_type").value_or("int");
  if (type != "int") {
    reader.fail("data_type", fmt::format("'{}' is not supported; supported: int", visible(type)));
  }
  const std::string packing = reader.string("packing_format").value_or("auto_round:auto_gptq");
  const bool is_awq = packing == "auto_round:auto_awq";
  if (!is_awq && packing != "auto_round:auto_gptq") {
    reader.fail("packing_format",
                fmt::format("'{}' is not supported; supported: auto_round:auto_gptq, "
                            "auto_round:auto_awq",
                            visible(packing)));
  }
  const QuantizationConfig config{
      .method = is_awq ? QuantizationMethod::awq : QuantizationMethod::gptq,
      .bits = read_bits(reader, "bits", !is_awq),
      .group_size = read_group_size(reader, "group_size"),
      .stores_zeros_minus_1 = !is_awq};
  require_equal_layers(reader, config);
  return config;
}

// Reads "weight_block_size" of fp8, or "block_structure" of compressed-tensors.
void read_block_size(const ConfigReader& reader, std::string_view key, QuantizationConfig& config) {
  const std::vector<int64_t> sizes = reader.integers(key, 1, kMostElements, 2);
  if (sizes.empty()) return;
  if (sizes.size() != 2) reader.fail(key, "must be two sizes: rows and columns of a block");
  config.block_rows = sizes[0];
  config.block_columns = sizes[1];
}

QuantizationConfig read_fp8(const ConfigReader& reader) {
  QuantizationConfig config{.method = QuantizationMethod::fp8, .bits = 8};
  read_block_size(reader, "weight_block_size", config);
  return config;
}

QuantizationConfig read_bitsandbytes(const ConfigReader& reader) {
  const bool is_four = reader.boolean("load_in_4bit").value_or(false);
  const bool is_eight = reader.boolean("load_in_8bit").value_or(false);
  if (is_four == is_eight) {
    reader.fail("load_in_4bit", "either load_in_4bit or load_in_8bit must be true");
  }
  return {.method = QuantizationMethod::bitsandbytes, .bits = is_four ? 4 : 8};
}

// Refuses formats other than those whose tensors can be read. A checkpoint without a format stores
// plain numbers.
void require_format(const ConfigReader& reader) {
  const std::string format = reader.string("format").value_or("dense");
  constexpr std::array<std::string_view, 7> kFormats = {"dense",
                                                        "int-quantized",
                                                        "naive-quantized",
                                                        "float-quantized",
                                                        "pack-quantized",
                                                        "nvfp4-pack-quantized",
                                                        "mixed-precision"};
  if (std::ranges::find(kFormats, format) != kFormats.end()) return;
  reader.fail("format",
              fmt::format("'{}' is not supported; supported: int-quantized, naive-quantized, "
                          "float-quantized, pack-quantized, nvfp4-pack-quantized, mixed-precision",
                          visible(format)));
}

// Whether `input_activations` of a group asks for int8 with one scale per part of this kind
// ("token", "tensor"), which is either computed while the model runs (dynamic) or stored. With one
// scale per token, the largest magnitude becomes 127, as in vLLM's kernels.
bool has_int8_inputs(const ConfigReader& group, std::string_view strategy, bool is_dynamic) {
  const std::optional<ConfigReader> inputs = group.object("input_activations");
  return inputs && inputs->integer("num_bits", 1, 64).value_or(8) == 8 &&
         inputs->string("type").value_or("int") == "int" &&
         inputs->string("strategy").value_or("") == strategy &&
         inputs->boolean("dynamic").value_or(false) == is_dynamic &&
         inputs->boolean("symmetric").value_or(true);
}

// Whether a group has float8 weights, but does not ask for float8 activations.
bool keeps_activations_of(const ConfigReader& group) {
  const auto is_float8 = [](const std::optional<ConfigReader>& numbers) {
    return numbers && numbers->integer("num_bits", 1, 64).value_or(8) == 8 &&
           numbers->string("type").value_or("int") == "float";
  };
  return is_float8(group.object("weights")) && !is_float8(group.object("input_activations"));
}

// Whether the member "kv_cache_scheme" asks for keys and values in float8.
bool has_float8_scheme(const ConfigReader& reader) {
  const std::optional<ConfigReader> cache = reader.object("kv_cache_scheme");
  return cache && cache->integer("num_bits", 1, 64).value_or(8) == 8 &&
         cache->string("type").value_or("float") == "float";
}

QuantizationConfig read_compressed_tensors(const ConfigReader& reader) {
  require_format(reader);
  QuantizationConfig config{.method = QuantizationMethod::compressed_tensors};
  if (const std::optional<ConfigReader> sparsity = reader.object("sparsity_config")) {
    const std::string format = sparsity->string("format").value_or("dense");
    if (format != "dense") {
      sparsity->fail("format",
                     fmt::format("'{}': sparse checkpoints are not supported", visible(format)));
    }
  }
  const Json* groups = reader.find("config_groups");
  if (groups != nullptr && groups->is_object()) {
    config.has_int8_tokens = config.has_static_int8 = !groups->empty();
    for (const auto& [name, group] : groups->items()) {
      if (!group.is_object()) reader.fail("config_groups", "must contain objects");
      const std::string prefix = fmt::format("config_groups.{}.", visible(name));
      const ConfigReader group_reader(group, reader.path(), prefix);
      if (group_reader.string("format")) require_format(group_reader);
      const std::optional<ConfigReader> weights = group_reader.object("weights");
      if (weights) read_block_size(*weights, "block_structure", config);
      config.keeps_activations = config.keeps_activations || keeps_activations_of(group_reader);
      config.has_int8_tokens =
          config.has_int8_tokens && has_int8_inputs(group_reader, "token", true);
      config.has_static_int8 =
          config.has_static_int8 && has_int8_inputs(group_reader, "tensor", false);
    }
  }
  config.has_float8_cache = has_float8_scheme(reader);
  return config;
}

// NVIDIA's Model Optimizer. Older checkpoints have these members in hf_quant_config.json, and name
// the type of the cache; newer ones have a scheme for it.
QuantizationConfig read_modelopt(const ConfigReader& reader) {
  const std::string algorithm = reader.string("quant_algo").value_or("");
  if (algorithm != "NVFP4" && algorithm != "FP8") {
    reader.fail("quant_algo",
                fmt::format("'{}' is not supported; supported: NVFP4, FP8", visible(algorithm)));
  }
  const std::string cache = reader.string("kv_cache_quant_algo").value_or("");
  if (!cache.empty() && cache != "FP8") {
    reader.fail("kv_cache_quant_algo",
                fmt::format("'{}': no cache has this type; supported: FP8. Without the member the "
                            "cache has the type of --kv-cache-dtype",
                            visible(cache)));
  }
  return {.method = QuantizationMethod::modelopt,
          .bits = algorithm == "NVFP4" ? 4 : 8,
          .has_float8_cache = cache == "FP8" || has_float8_scheme(reader)};
}

}  // namespace

std::string_view quantization_method_name(QuantizationMethod method) noexcept {
  switch (method) {
    case QuantizationMethod::gptq:
      return "gptq";
    case QuantizationMethod::awq:
      return "awq";
    case QuantizationMethod::fp8:
      return "fp8";
    case QuantizationMethod::compressed_tensors:
      return "compressed-tensors";
    case QuantizationMethod::bitsandbytes:
      return "bitsandbytes";
    case QuantizationMethod::modelopt:
      return "modelopt";
    case QuantizationMethod::none:
      break;
  }
  return "none";
}

void add_modelopt_config(Json& config, const Json& file) {
  if (!config.is_object() || config.contains("quantization_config") || !file.is_object()) return;
  const auto found = file.find("quantization");
  if (found == file.end() || !found->is_object()) return;
  config["quantization_config"] = *found;
  config["quantization_config"]["quant_method"] = "modelopt";
}

QuantizationConfig read_quantization_config(const ConfigReader& reader) {
  const std::optional<ConfigReader> config = reader.object("quantization_config");
  if (!config) return {};
  const std::string method = config->string("quant_method").value_or("");
  if (method == "gptq") return read_gptq(*config);
  if (method == "awq") return read_awq(*config);
  if (method == "auto-round" || method == "intel/auto-round") return read_auto_round(*config);
  if (method == "mxfp4") return {};  // only of experts, see ExpertMatrices
  if (method == "fp8" || method == "fbgemm_fp8") return read_fp8(*config);
  if (method == "compressed-tensors") return read_compressed_tensors(*config);
  if (method == "bitsandbytes") return read_bitsandbytes(*config);
  if (method == "modelopt" || method == "modelopt_fp4") return read_modelopt(*config);
  config->fail(
      "quant_method",
      fmt::format("'{}' is not supported; supported: gptq, awq, auto-round, fp8, "
                  "compressed-tensors, bitsandbytes, modelopt; use the float16 or bfloat16 "
                  "original, with --quantization if it should be smaller",
                  visible(method)));
}

}  // namespace reprise::weights
