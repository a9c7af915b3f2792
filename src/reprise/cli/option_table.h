#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::cli {

/// One option as users meet it: on the command line, in --help and in the reference page.
struct Option {
  std::string name;          // "max-num-seqs"; '_' works as '-' on the command line
  std::string short_name;    // "-cc", or empty
  std::string group;         // heading in --help
  std::string value_name;    // "N"; empty = a switch, which also has a --no- form
  std::string help;          // one sentence
  std::string default_text;  // as people would type it; empty = none
  /// Takes the value; for a switch "true" or "false". \throws InvalidArgument
  std::function<void(std::string_view)> apply;
  /// Takes "a.b" and a value of `--name.a.b value`; empty = the option has no dotted form.
  std::function<void(std::string_view path, std::string_view value)> apply_dotted;
  /// For options with a dotted form: all that was given so far, as JSON.
  std::function<std::string()> merged;
  std::vector<std::string> choices;  // for completion; empty = free
  std::string example;               // a value that parses, where value_name does not suggest one
  bool takes_several = false;        // "--name a b", as vLLM; `apply` is called for each
  bool is_secret = false;            // never printed
  bool adds_up = false;              // values of every source count, not only those of the first
};

/// Where a value came from. A later one wins.
enum class Source : uint8_t { config_file, environment, command_line };

/// A value for an option, not yet applied. Borrows the option from its table.
struct Assignment {
  const Option* option = nullptr;
  std::string path;  // of a dotted form, else empty
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
  // Typed shorthands: the target must outlive the parse.
  void add_switch(std::string name, std::string group, std::string help, bool& target);
  void add_integer(std::string name, std::string group, std::string help, int32_t& target);
  void add_text(std::string name,
                std::string group,
                std::string value_name,
                std::string help,
                std::string& target);
  /// A JSON object, whole or member by member: `--name.a.b 1`. Several are merged.
  void add_object(std::string name, std::string group, std::string help, Json& target);

  /// Applies the arguments and returns the positional ones; looks at nothing else
  /// (`configure` also reads the environment and a file).
  /// \throws InvalidArgument: an unknown option (with the nearest name), a missing or bad value
  std::vector<std::string> parse(std::span<const std::string> arguments) const;

  /// The first half of parse(): what the arguments say, with nothing applied.
  [[nodiscard]] ScannedArguments scan(std::span<const std::string> arguments) const;
  /// The second half. \throws InvalidArgument that begins with the place, unless the command line
  static void apply(const Assignment& assignment);

  /// By its name without dashes, '_' as '-'; null if there is none.
  [[nodiscard]] const Option* find(std::string_view name) const;
  /// "; did you mean 'max-num-seqs'?" or empty.
  [[nodiscard]] std::string suggestion(std::string_view name) const;

  /// True when the arguments ask for help; then `help_text` answers them.
  [[nodiscard]] static bool asks_for_help(std::span<const std::string> arguments);
  /// `--help` lists groups, `--help=all` everything, `--help=word` a group, an option or a search;
  /// for programs: `--help=format:json`, `format:man`, `format:completion`.
  [[nodiscard]] std::string help_text(std::span<const std::string> arguments) const;

  [[nodiscard]] std::span<const Option> options() const noexcept { return options_; }
  [[nodiscard]] const std::string& usage() const noexcept { return usage_; }
  [[nodiscard]] const std::string& summary() const noexcept { return summary_; }

 private:
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
