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
  /// True when the chat template has already written `start` into the prompt: the model's text then
  /// begins inside the reasoning, and it may repeat `start`.
  bool begins_inside = false;
};

/// "deepseek_r1", "qwen3", "mistral". \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// Separates the reasoning from the other text, which the parser `rest` then reads. If `rest` is
/// null, the other text is content.
[[nodiscard]] std::unique_ptr<OutputParser> create_reasoning_parser(
    ReasoningFormat format, std::unique_ptr<OutputParser> rest);

}  // namespace reprise::output_parsers
