#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/environment.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// What was asked of a command, merged: the command line before the environment before --config.
/// Of each option the values of the first source that names it count, and for options that take
/// JSON the fields of all, those of the first source last.
class Configuration {
 public:
  [[nodiscard]] std::span<const std::string> positional() const noexcept { return positional_; }
  /// In the order in which they were applied.
  [[nodiscard]] std::span<const Assignment> assignments() const noexcept { return assignments_; }
  [[nodiscard]] const OptionTable& table() const noexcept { return table_; }

  /// YAML that --config reads back: every option, its value and where that came from; defaults and
  /// secrets as comments.
  [[nodiscard]] std::string to_yaml() const;
  /// One line of JSON with what was given, without secrets.
  [[nodiscard]] std::string to_line() const;

 private:
  friend std::optional<Configuration> configure(const OptionTable& table,
                                                std::span<const std::string> arguments,
                                                const LookUpVariable& look_up);
  explicit Configuration(OptionTable table) : table_(std::move(table)) {}

  OptionTable table_;
  std::vector<std::string> positional_;
  std::vector<Assignment> assignments_;
};

/// Parses the arguments of a command with all that stands behind them, and applies the result.
/// Adds --config and --dump-config to the table. A first positional argument also counts as --model
/// where the table has that. Nothing when help or the configuration was asked for, and printed.
/// \throws InvalidArgument
[[nodiscard]] std::optional<Configuration> configure(
    const OptionTable& table,
    std::span<const std::string> arguments,
    const LookUpVariable& look_up = look_up_process_environment);

}  // namespace reprise::cli
