#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/config/compilation_config.h"

/// The names of enumerators in configurations. Each enum has one table; the templates below read
/// and print all enums.
namespace reprise::config {

template <class Enum>
struct EnumName {
  std::string_view name;
  Enum value;
};

// Several names may stand for one value. The first of them is printed.
inline constexpr std::array<EnumName<CompilationMode>, 8> kCompilationModes = {{
    {"NONE", CompilationMode::NONE},
    {"STOCK_TORCH_COMPILE", CompilationMode::STOCK_TORCH_COMPILE},
    {"DYNAMO_TRACE_ONCE", CompilationMode::DYNAMO_TRACE_ONCE},
    {"VLLM_COMPILE", CompilationMode::VLLM_COMPILE},
    {"NO_COMPILATION", CompilationMode::NONE},
    {"DYNAMO_AS_IS", CompilationMode::STOCK_TORCH_COMPILE},
    {"DYNAMO_ONCE", CompilationMode::DYNAMO_TRACE_ONCE},
    {"PIECEWISE", CompilationMode::VLLM_COMPILE},
}};
inline constexpr std::array<EnumName<cudagraph::CudagraphMode>, 6> kCudagraphModes = {{
    {"NONE", cudagraph::CudagraphMode::NONE},
    {"PIECEWISE", cudagraph::CudagraphMode::PIECEWISE},
    {"FULL", cudagraph::CudagraphMode::FULL},
    {"FULL_DECODE_ONLY", cudagraph::CudagraphMode::FULL_DECODE_ONLY},
    {"FULL_AND_PIECEWISE", cudagraph::CudagraphMode::FULL_AND_PIECEWISE},
    {"FULL_AND_FULL", cudagraph::CudagraphMode::FULL_AND_FULL},
}};
inline constexpr std::array<EnumName<cudagraph::CaptureSizeRule>, 7> kCaptureSizeRules = {{
    {"reprise", cudagraph::CaptureSizeRule::reprise},
    {"vllm", cudagraph::CaptureSizeRule::vllm},
    {"vllm-v1", cudagraph::CaptureSizeRule::vllm_v1},
    {"vllm-0.10", cudagraph::CaptureSizeRule::vllm_0_10},
    {"atom", cudagraph::CaptureSizeRule::atom},
    {"atom-runner", cudagraph::CaptureSizeRule::atom_runner},
    {"measured", cudagraph::CaptureSizeRule::measured},
}};
inline constexpr std::array<EnumName<DynamicShapesType>, 3> kDynamicShapesTypes = {{
    {"backed", DynamicShapesType::backed},
    {"unbacked", DynamicShapesType::unbacked},
    {"backed_size_oblivious", DynamicShapesType::backed_size_oblivious},
}};

template <class Enum>
struct EnumTraits;
template <>
struct EnumTraits<CompilationMode> {
  static constexpr std::span<const EnumName<CompilationMode>> names = kCompilationModes;
  static constexpr int64_t largest_integer = 3;
};
template <>
struct EnumTraits<cudagraph::CudagraphMode> {
  static constexpr std::span<const EnumName<cudagraph::CudagraphMode>> names = kCudagraphModes;
  static constexpr int64_t largest_integer = 2;  // dual modes have no number
};
template <>
struct EnumTraits<cudagraph::CaptureSizeRule> {
  static constexpr std::span<const EnumName<cudagraph::CaptureSizeRule>> names = kCaptureSizeRules;
  static constexpr int64_t largest_integer = -1;
};
template <>
struct EnumTraits<DynamicShapesType> {
  static constexpr std::span<const EnumName<DynamicShapesType>> names = kDynamicShapesTypes;
  static constexpr int64_t largest_integer = -1;
};

template <class Enum>
std::vector<std::string_view> enum_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : EnumTraits<Enum>::names) names.push_back(entry.name);
  return names;
}

template <class Enum>
std::string expected_values() {
  std::string text = fmt::format("one of {}", fmt::join(enum_names<Enum>(), ", "));
  if (EnumTraits<Enum>::largest_integer >= 0) {
    text += fmt::format(" or an integer 0 to {}", EnumTraits<Enum>::largest_integer);
  }
  return text;
}

/// Whether the integer names a value of an enum whose integers run from 0 to `largest`. For enums
/// without integers `largest` is -1.
constexpr bool is_from_zero_to(int64_t value, int64_t largest) {
  return value >= 0 && value <= largest;
}

template <class Enum>
Enum enum_from_integer(std::string_view field, int64_t value) {
  if (!is_from_zero_to(value, EnumTraits<Enum>::largest_integer)) {
    throw InvalidArgument(
        fmt::format("{}: expected {}, got {}", field, expected_values<Enum>(), value));
  }
  return static_cast<Enum>(value);
}

template <class Enum>
Enum enum_from_text(std::string_view field, std::string_view text) {
  for (const auto& entry : EnumTraits<Enum>::names) {
    if (equal_ignoring_case(entry.name, text)) return entry.value;
  }
  if (text.size() == 1 && std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    return enum_from_integer<Enum>(field, text[0] - '0');
  }
  const auto names = enum_names<Enum>();
  throw InvalidArgument(fmt::format("{}: unknown value '{}'{}; expected {}",
                                    field,
                                    text,
                                    did_you_mean(text, names),
                                    expected_values<Enum>()));
}

template <class Enum>
std::string_view enum_name(Enum value) noexcept {
  for (const auto& entry : EnumTraits<Enum>::names) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

}  // namespace reprise::config
