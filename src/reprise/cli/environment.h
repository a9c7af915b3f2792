#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Looks up a variable in the environment, or in a test's map. nullopt: the variable is not set.
using LookUpVariable = std::function<std::optional<std::string>(std::string_view name)>;

[[nodiscard]] std::optional<std::string> look_up_process_environment(std::string_view name);

/// A variable that the program reads. A test compares the list of variables with the source code.
struct Variable {
  std::string_view name;
  std::string_view help;
  /// The option that the variable sets; empty: the code that needs the variable reads it.
  std::string_view option;
  /// Converts the variable's value to the option's value; nullopt: treat the variable as not set.
  /// Null: no conversion. \throws InvalidArgument
  std::optional<std::string> (*convert)(std::string_view value,
                                        const LookUpVariable& look_up) = nullptr;
};

[[nodiscard]] std::span<const Variable> environment_variables();

/// The description of variables that set an option.
inline constexpr const char* kOptionVariables =
    "Any option, as REPRISE_ARG_MAX_NUM_SEQS=8 for --max-num-seqs 8; 1 and 0 for a switch.";

/// "max-num-seqs" -> "REPRISE_ARG_MAX_NUM_SEQS", which every option has.
[[nodiscard]] std::string variable_of(std::string_view option_name);

/// The values that the environment gives to the options of a table.
[[nodiscard]] std::vector<Assignment> read_environment(const OptionTable& table,
                                                       const LookUpVariable& look_up);

/// Names in `set_names` that begin like this program's or vLLM's variables and that nothing reads.
/// Names that begin like the variable of an option are left out: unknown_option_variables() finds
/// them.
[[nodiscard]] std::vector<std::string> unknown_variables(std::span<const std::string> set_names);

/// A message for each of `set_names` that begins like the variable of an option although neither
/// `table` nor `serve` has that option: "REPRISE_ARG_PROT is set and means nothing here; did you
/// mean REPRISE_ARG_PORT?" A variable of `serve` may be set for all commands of a container.
[[nodiscard]] std::vector<std::string> unknown_option_variables(
    const OptionTable& table, const OptionTable& serve, std::span<const std::string> set_names);

/// Names of all variables of this process.
[[nodiscard]] std::vector<std::string> process_environment_names();

}  // namespace reprise::cli
