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
  /// A line that follows the start and belongs to the marker, not to the reasoning.
  std::string_view label;
  /// True when the chat template has already written the start into the prompt: the model's text
  /// then begins inside the reasoning, and it may repeat the start.
  bool begins_inside = false;
  bool has_channels = false;  // Harmony: messages with channels in place of the markers above
  /// Tags around the answer after the reasoning, which are no part of the content; or empty.
  std::string_view answer_start = {};
  std::string_view answer_end = {};
  /// The reasoning is reported as the beginning of the content, with <think> and </think>, for
  /// clients that send it back as they got it.
  bool stays_in_content = false;
};

/// \throws InvalidArgument with the known names
[[nodiscard]] ReasoningFormat reasoning_format(std::string_view name);
[[nodiscard]] std::vector<ReasoningFormat> reasoning_formats();
[[nodiscard]] std::vector<std::string_view> reasoning_parser_names();

/// What a complete tool call means that is the last thing in an answer whose reasoning was never
/// closed. Some models begin to call before they close their reasoning; the call is then real.
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
