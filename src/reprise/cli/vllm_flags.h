#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The group of --help that lists these flags.
inline constexpr const char* kVllmFlagsGroup = "vLLM flags without a meaning here";

/// How this program treats a flag of `vllm serve` that it does not have as an option.
enum class VllmFlagSupport : uint8_t {
  no_effect,   // accepted with any value, because it changes no answer
  only_equal,  // accepted only with values that describe what this program always does
};

struct VllmFlag {
  std::string_view name;
  std::string_view short_name;
  std::string_view value_name;  // empty = a switch
  VllmFlagSupport support;
  // The accepted values, separated by '|'; the first one is in vLLM's spelling.
  std::string_view equal;
  std::string_view why;  // completes "... has no effect here: " and "... is not supported: "
};

/// Flags of `vllm serve` that this program does not have as options.
[[nodiscard]] std::span<const VllmFlag> vllm_flags();

/// Adds the flags that the table does not have as its own options. Each use either prints once, on
/// stderr, that the flag has no effect, or is refused.
void add_vllm_flags(OptionTable& table);

}  // namespace reprise::cli
