#include "reprise/weights/quantization_config.h"

#include <fmt/format.h>

#include <optional>
#include <string>

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

}  // namespace

std::string_view quantization_method_name(QuantizationMethod method) noexcept {
  switch (method) {
    case QuantizationMethod::gptq:
      return "gptq";
    case QuantizationMethod::awq:
      return "awq";
    case QuantizationMethod::none:
      break;
  }
  return "none";
}

QuantizationConfig read_quantization_config(const ConfigReader& reader) {
  const std::optional<ConfigReader> config = reader.object("quantization_config");
  if (!config) return {};
  const std::string method = config->string("quant_method").value_or("");
  if (method == "gptq") return read_gptq(*config);
  if (method == "awq") return read_awq(*config);
  config->fail("quant_method",
               fmt::format("'{}' is not supported; supported: gptq, awq; use the float16 or "
                           "bfloat16 original, with --quantization if it should be smaller",
                           visible(method)));
}

}  // namespace reprise::weights
