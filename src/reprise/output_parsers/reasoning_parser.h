#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// How a family of models marks its reasoning, by vLLM's name of its parser.
struct ReasoningFormat {
  std::string_view name;
  std::string_view models;
  std::vector<std::string_view> starts;  // any of them begins the reasoning
  std::vector<std::string_view> ends;    // any of them ends it
  /// Markers that end the reasoning and belong to what follows: the beginning of a tool call.
  std::vector<std::string_view> also_ends_before;
  /// A line that follows the start and belongs to the marker, not to the reasoning.
  std::string_view label;
  /// True when the chat template has already written the start into the prompt: the model's text
  /// then begins inside the reasoning, and it may repeat the start.
  bool begins_inside = false;
  bool has_channels = false;  // Harmony: messages with channels in place of the markers above
};

/// \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<ReasoningFormat> reasoning_formats();
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// Separates the reasoning from the other text, which the parser `rest` then reads. If `rest` is
/// null, the other text is content.
[[nodiscard]] std::unique_ptr<OutputParser> create_reasoning_parser(
    ReasoningFormat format, std::unique_ptr<OutputParser> rest);

}  // namespace reprise::output_parsers
