#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/environment.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The merged configuration of a command. Sources in order of priority: command line, environment,
/// --config file. The first source that names an option gives its values. For an option that takes
/// JSON the fields of all sources are merged, and the first source wins for each field.
class Configuration {
 public:
  [[nodiscard]] std::span<const std::string> positional() const noexcept { return positional_; }
  /// In the order in which they were applied.
  [[nodiscard]] std::span<const Assignment> assignments() const noexcept { return assignments_; }
  [[nodiscard]] const OptionTable& table() const noexcept { return table_; }
  /// The file of --config; empty: no file was given.
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

  /// YAML that --config accepts: every option, its value and the value's source; defaults and
  /// secrets are comments.
  [[nodiscard]] std::string to_yaml() const;
  /// One line of JSON with the options that were given, without secrets.
  [[nodiscard]] std::string to_line() const;

 private:
  friend std::optional<Configuration> configure(const OptionTable& table,
                                                std::span<const std::string> arguments,
                                                const LookUpVariable& look_up);
  explicit Configuration(OptionTable table) : table_(std::move(table)) {}

  OptionTable table_;
  std::filesystem::path file_;
  std::vector<std::string> positional_;
  std::vector<Assignment> assignments_;
};

/// Parses the arguments of a command, the environment and the --config file, and applies the
/// result. Adds --config and --dump-config to the table. A first positional argument also sets
/// --model when the table has that option. Returns nullopt after printing help or the
/// configuration. \throws InvalidArgument
[[nodiscard]] std::optional<Configuration> configure(
    const OptionTable& table,
    std::span<const std::string> arguments,
    const LookUpVariable& look_up = look_up_process_environment);

}  // namespace reprise::cli
