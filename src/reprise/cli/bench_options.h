#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/bench/dataset.h"
#include "reprise/chat_template/chat_template.h"
#include "reprise/cli/option_table.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::cli {

/// Adds --dataset-name and the options of each dataset. The targets must outlive the parse.
void add_dataset_options(OptionTable& table, bench::DatasetOptions& options);

/// Turns "--goodput a b" into "--goodput a --goodput b" for the options in `names`, which take
/// several values in a row, as in argparse.
[[nodiscard]] std::vector<std::string> expand_lists(std::span<const std::string> arguments,
                                                    std::span<const std::string_view> names);

/// Adds an integer option that may be left out. A value that is given must be in [lowest, 2^31).
void add_optional_integer(OptionTable& table,
                          std::string name,
                          std::string group,
                          std::string help,
                          std::optional<int32_t>& target,
                          int32_t lowest);
void add_number(
    OptionTable& table, std::string name, std::string group, std::string help, double& target);

/// "a,b,c". Empty parts are dropped.
[[nodiscard]] std::vector<std::string> split_commas(std::string_view text);
/// "key=value". \throws InvalidArgument naming `option`
[[nodiscard]] std::pair<std::string, std::string> split_pair(std::string_view option,
                                                             std::string_view text);
/// The same as parse_number, and accepts "inf". \throws InvalidArgument naming `option`
[[nodiscard]] double parse_rate(std::string_view option, std::string_view text);

/// The parts of a model folder that are needed to make prompts.
class PromptMaker {
 public:
  /// \throws FileError
  explicit PromptMaker(const std::filesystem::path& folder);

  [[nodiscard]] const tokenizer::Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  /// The result borrows this object.
  [[nodiscard]] bench::DatasetTools tools(bool sends_messages) const;

 private:
  [[nodiscard]] std::string apply_chat_template(const std::string& content) const;

  std::filesystem::path folder_;
  tokenizer::Tokenizer tokenizer_;
  std::optional<chat_template::ChatTemplate> chat_template_;
};

/// Raises the limit on open files of this process as far as the system allows.
void raise_open_file_limit();

}  // namespace reprise::cli
