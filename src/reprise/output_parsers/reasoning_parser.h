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
  /// The template has opened the reasoning already: the text begins inside, with or without
  /// `start`.
  bool begins_inside = false;
};

/// "deepseek_r1", "qwen3", "mistral". \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// Splits reasoning from the rest, which goes on to `rest` (content where it is null).
[[nodiscard]] std::unique_ptr<OutputParser> create_reasoning_parser(
    ReasoningFormat format, std::unique_ptr<OutputParser> rest);

}  // namespace reprise::output_parsers
