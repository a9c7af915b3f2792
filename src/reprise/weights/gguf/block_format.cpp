#include "reprise/weights/gguf/block_format.h"

#include <array>

namespace reprise::weights::gguf {
namespace {

struct KnownFormat {
  BlockFormat format;
  std::string_view name;
  BlockSize size;
};

// Source: ggml, src/ggml-common.h (block_* structures) and include/ggml.h (enum ggml_type).
constexpr std::array<KnownFormat, 16> kFormats = {{
    {BlockFormat::f32, "F32", {1, 4}},
    {BlockFormat::f16, "F16", {1, 2}},
    {BlockFormat::bf16, "BF16", {1, 2}},
    {BlockFormat::q4_0, "Q4_0", {32, 18}},
    {BlockFormat::q4_1, "Q4_1", {32, 20}},
    {BlockFormat::q5_0, "Q5_0", {32, 22}},
    {BlockFormat::q5_1, "Q5_1", {32, 24}},
    {BlockFormat::q8_0, "Q8_0", {32, 34}},
    {BlockFormat::q2_k, "Q2_K", {256, 84}},
    {BlockFormat::q3_k, "Q3_K", {256, 110}},
    {BlockFormat::q4_k, "Q4_K", {256, 144}},
    {BlockFormat::q5_k, "Q5_K", {256, 176}},
    {BlockFormat::q6_k, "Q6_K", {256, 210}},
    {BlockFormat::iq4_nl, "IQ4_NL", {32, 18}},
    {BlockFormat::iq4_xs, "IQ4_XS", {256, 136}},
    {BlockFormat::mxfp4, "MXFP4", {32, 17}},
}};

}  // namespace

std::optional<BlockFormat> block_format_of(uint32_t number) noexcept {
  for (const KnownFormat& known : kFormats) {
    if (static_cast<uint32_t>(known.format) == number) return known.format;
  }
  return std::nullopt;
}

std::string_view block_format_name(BlockFormat format) noexcept {
  for (const KnownFormat& known : kFormats) {
    if (known.format == format) return known.name;
  }
  return "";
}

BlockSize block_size(BlockFormat format) noexcept {
  for (const KnownFormat& known : kFormats) {
    if (known.format == format) return known.size;
  }
  return {};
}

std::string_view block_format_list() noexcept {
  return "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, "
         "IQ4_XS, MXFP4";
}

}  // namespace reprise::weights::gguf
