#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// How a family of models marks its reasoning.
struct ReasoningFormat {
  std::string start;  // "<think>"
  std::string end;    // "</think>"
  /// True when the template has opened the reasoning: the text then begins inside it, with or
  /// without `start`.
  bool begins_inside = false;
};

/// "deepseek_r1", "qwen3", "mistral". \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// Splits the reasoning from the rest of the text, which goes on to `rest`; without a `rest` it is
/// content.
[[nodiscard]] std::unique_ptr<OutputParser> create_reasoning_parser(
    ReasoningFormat format, std::unique_ptr<OutputParser> rest);

}  // namespace reprise::output_parsers
