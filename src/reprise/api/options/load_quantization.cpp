#include "reprise/api/options/load_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/weights/config/quantization_config.h"

namespace reprise::api {
namespace {

std::optional<weights::LoadQuantization> find_load_quantization(std::string_view name) {
  if (name == "int8") return weights::LoadQuantization::int8;
  if (name == "int4") return weights::LoadQuantization::int4;
  if (name == "q8_0") return weights::LoadQuantization::q8_0;
  if (name == "fp8") return weights::LoadQuantization::fp8;
  return std::nullopt;
}

bool is_stored_format(std::string_view name) {
  using enum weights::QuantizationMethod;
  constexpr std::array kFormats = {gptq, awq, fp8, compressed_tensors, bitsandbytes, modelopt};
  return std::ranges::any_of(kFormats, [&](weights::QuantizationMethod method) {
    return weights::quantization_method_name(method) == name;
  });
}

}  // namespace

std::optional<weights::LoadQuantization> load_quantization(const EngineArgs& args,
                                                           const weights::ModelConfig& config) {
  // vLLM has a name of its own for ModelOpt's NVFP4.
  const std::string asked = args.quantization == "modelopt_fp4" ? "modelopt" : args.quantization;
  const std::string_view stored = weights::quantization_method_name(config.quantization.method);
  if (asked == "none" || asked == "None" || asked == stored) return std::nullopt;
  const auto method = find_load_quantization(asked);
  if (!method) {
    throw InvalidArgument(fmt::format(
        "--quantization: '{}' is not one of none, int8, int4, q8_0, fp8{}",
        asked,
        is_stored_format(asked) ? fmt::format("; the checkpoint is stored as {}", stored)
                                : ", gptq, awq, compressed-tensors, bitsandbytes, modelopt"));
  }
  if (stored != "none") {
    throw InvalidArgument(fmt::format(
        "--quantization: {}: the checkpoint is quantised already ({}); leave the option out",
        asked,
        stored));
  }
  return method;
}

bool quantizes_while_loading(const EngineArgs& args) {
  const auto method = find_load_quantization(args.quantization);
  return method && *method != weights::LoadQuantization::fp8;
}

}  // namespace reprise::api
