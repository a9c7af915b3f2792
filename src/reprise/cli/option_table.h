#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::cli {

/// Headings in --help that several commands have.
inline constexpr const char* kServer = "Server";
inline constexpr const char* kLoad = "Load";
inline constexpr const char* kResults = "Results";

/// One option in the form that users see: on the command line, in --help and in the reference page.
struct Option {
  std::string name;          // "max-num-seqs"; '_' works as '-' on the command line
  std::string short_name;    // "-cc", or empty
  std::string group;         // heading in --help
  std::string value_name;    // "N"; empty = a switch, which also has a --no- form
  std::string help;          // one sentence
  std::string default_text;  // in the form that users type; empty = none
  /// Applies the value; for a switch "true" or "false". \throws InvalidArgument
  std::function<void(std::string_view)> apply;
  /// Applies `--name.a.b value`, given "a.b" and the value; empty = the option has no dotted form.
  std::function<void(std::string_view path, std::string_view value)> apply_dotted;
  /// For an option with a dotted form: the merged value so far, as JSON.
  std::function<std::string()> merged;
  std::vector<std::string> choices;  // for completion; empty = any value
  std::string example;  // a valid value, for options whose value_name does not suggest one
  // accepts "--name a b", the same as vLLM; `apply` is called for each value
  bool takes_several = false;
  bool is_secret = false;  // never printed
  // applied before all other options, because it decides how their errors are reported
  bool comes_first = false;
  // The values of all sources are added up; otherwise only the first source counts.
  bool adds_up = false;
  bool is_listed = true;  // in help, completions and pages; otherwise only accepted
  /// Some options are short for a member of another option: -O.mode=3 means -cc.mode=3. This is the
  /// name of that other option.
  std::string object_option = {};
};

/// The source of a value. A later enumerator has priority over an earlier one.
enum class Source : uint8_t { config_file, environment, command_line };

/// A value for an option, not yet applied. Borrows the option from its table.
struct Assignment {
  const Option* option = nullptr;
  std::string path;  // the dotted path, or empty
  std::string value;
  Source source = Source::command_line;
  std::string where;  // "serve.yaml:3", "VLLM_API_KEY", "command line"
};

struct ScannedArguments {
  std::vector<std::string> positional;
  std::vector<Assignment> assignments;
};

/// The options of one command. Parsing, help and documentation all read the same list.
class OptionTable {
 public:
  /// `usage`: "reprise generate MODEL --prompt TEXT [options]"; `summary`: one or two sentences.
  OptionTable(std::string usage, std::string summary)
      : usage_(std::move(usage)), summary_(std::move(summary)) {}

  void add(Option option);
  // Functions for common types. The target must outlive the parse.
  void add_switch(std::string name, std::string group, std::string help, bool& target);
  /// A switch whose default depends on other things, as `default_text` says.
  void add_switch(std::string name,
                  std::string group,
                  std::string help,
                  std::string default_text,
                  std::optional<bool>& target);
  void add_integer(std::string name, std::string group, std::string help, int32_t& target);
  void add_text(std::string name,
                std::string group,
                std::string value_name,
                std::string help,
                std::string& target);
  /// Adds an option that takes a JSON object, whole or member by member: `--name.a.b 1`. Several
  /// values are merged.
  void add_object(std::string name, std::string group, std::string help, Json& target);

  /// Applies the arguments and returns the positional ones. Reads only the arguments (`configure`
  /// also reads the environment and a file). \throws InvalidArgument for an unknown option (naming
  /// the nearest one), a missing or bad value
  [[nodiscard]] std::vector<std::string> parse(std::span<const std::string> arguments) const;

  /// The first half of parse(): splits the arguments into assignments without applying them.
  [[nodiscard]] ScannedArguments scan(std::span<const std::string> arguments) const;
  /// The second half of parse(). \throws InvalidArgument; the message begins with the place of the
  /// value unless that is the command line
  static void apply(const Assignment& assignment);

  /// Finds an option by its name without dashes, '_' as '-'; null if there is none.
  [[nodiscard]] const Option* find(std::string_view name) const;
  /// "; did you mean 'max-num-seqs'?" or empty.
  [[nodiscard]] std::string suggestion(std::string_view name) const;

  /// True when the arguments ask for help; help_text() then gives the answer.
  [[nodiscard]] static bool asks_for_help(std::span<const std::string> arguments);
  /// `--help` lists groups, `--help=all` everything, `--help=word` a group, an option or a search;
  /// for programs: `--help=format:json`, `format:man`, `format:completion`.
  [[nodiscard]] std::string help_text(std::span<const std::string> arguments) const;

  [[nodiscard]] std::span<const Option> options() const noexcept { return options_; }
  /// The options that help, completions and pages show.
  [[nodiscard]] std::vector<Option> listed_options() const;
  [[nodiscard]] const std::string& usage() const noexcept { return usage_; }
  [[nodiscard]] const std::string& summary() const noexcept { return summary_; }

 private:
  class Scanner;

  [[nodiscard]] const Option* find_flag(std::string_view flag) const;
  [[noreturn]] void refuse(std::string_view argument) const;

  std::string usage_;
  std::string summary_;
  std::vector<Option> options_;
};

/// "true" or "false". \throws InvalidArgument naming `option`
[[nodiscard]] bool parse_switch(std::string_view option, std::string_view text);
/// "2048", "2k" = 2000, "2K" = 2048, "25.6k", "1M". \throws InvalidArgument naming `option`
[[nodiscard]] int64_t parse_human_integer(std::string_view option, std::string_view text);
/// \throws InvalidArgument naming `option`
[[nodiscard]] double parse_number(std::string_view option, std::string_view text);

}  // namespace reprise::cli
