#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The environment, or a test's. Empty optional: not set.
using LookUpVariable = std::function<std::optional<std::string>(std::string_view name)>;

[[nodiscard]] std::optional<std::string> look_up_process_environment(std::string_view name);

/// A variable that the program reads. A test compares the list with the source.
struct Variable {
  std::string_view name;
  std::string_view help;
  /// The option it stands for; empty: read where it is needed.
  std::string_view option;
  /// The option's value; no value = as if the variable were not set. Null: the value itself.
  /// \throws InvalidArgument
  std::optional<std::string> (*convert)(std::string_view value,
                                        const LookUpVariable& look_up) = nullptr;
};

[[nodiscard]] std::span<const Variable> environment_variables();

/// What the variables that options have in common are.
inline constexpr const char* kOptionVariables =
    "Any option, as REPRISE_ARG_MAX_NUM_SEQS=8 for --max-num-seqs 8; 1 and 0 for a switch.";

/// "max-num-seqs" -> "REPRISE_ARG_MAX_NUM_SEQS", which every option has.
[[nodiscard]] std::string variable_of(std::string_view option_name);

/// What the environment says about the options of a table.
[[nodiscard]] std::vector<Assignment> read_environment(const OptionTable& table,
                                                       const LookUpVariable& look_up);

/// Names among `set_names` that look like ours or vLLM's and that nothing here reads.
[[nodiscard]] std::vector<std::string> unknown_variables(const OptionTable& table,
                                                         std::span<const std::string> set_names);

/// Names of all variables of this process.
[[nodiscard]] std::vector<std::string> process_environment_names();

}  // namespace reprise::cli
