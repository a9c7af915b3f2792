#pragma once

#include <cstdint>
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
  /// A line after the start marker that belongs to the marker and not to the reasoning.
  std::string_view label;
  /// The chat template already writes the start marker into the prompt. The model's text then
  /// begins inside the reasoning, and may repeat the marker.
  bool begins_inside = false;
  bool has_channels = false;  // Harmony: messages with channels in place of the markers above
  /// Tags around the answer after the reasoning, which are not part of the content; or empty.
  std::string_view answer_start = {};
  std::string_view answer_end = {};
  /// The reasoning is reported as the beginning of the content, between <think> and </think>, for
  /// clients that send it back unchanged.
  bool stays_in_content = false;
};

/// \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<ReasoningFormat> reasoning_formats();
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// How to treat a complete tool call at the very end of an answer whose reasoning was never closed.
/// Some models begin to call before they close their reasoning; then the call is meant.
enum class CallAtTheEnd : uint8_t { is_reasoning, is_a_call };

/// Separates the reasoning from the other text, which a parser that `rest` makes then reads. If
/// `rest` is empty, the other text is content. Everything before the end of the reasoning is
/// reasoning: a tool call that is drafted or named there is not a call. With
/// CallAtTheEnd::is_a_call, the calls that end the text of an unclosed reasoning are reported too,
/// if the model itself ended the answer.
[[nodiscard]] std::unique_ptr<OutputParser> create_reasoning_parser(
    ReasoningFormat format,
    const CreateOutputParser& rest,
    CallAtTheEnd call_at_the_end = CallAtTheEnd::is_reasoning);

}  // namespace reprise::output_parsers
