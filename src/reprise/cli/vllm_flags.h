#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Where help lists them.
inline constexpr const char* kVllmFlagsGroup = "vLLM flags without a meaning here";

/// What becomes of a flag of `vllm serve` that is not an option here.
enum class VllmFlagSupport : uint8_t {
  no_effect,   // accepted with any value: it changes no answer
  only_equal,  // accepted with the values that say what is done anyway, refused with others
};

struct VllmFlag {
  std::string_view name;
  std::string_view short_name;
  std::string_view value_name;  // empty = a switch
  VllmFlagSupport support;
  std::string_view equal;  // values separated by '|', the first is vLLM's way to say it
  std::string_view why;    // ends "... has no effect here: " and "... is not supported: "
};

/// Flags of `vllm serve` that have no meaning of their own here.
[[nodiscard]] std::span<const VllmFlag> vllm_flags();

/// Adds those that the table does not have as options of its own. Each use says once, on stderr,
/// that it has no effect, or is refused.
void add_vllm_flags(OptionTable& table);

}  // namespace reprise::cli
