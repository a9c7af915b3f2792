#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/output_parsers/output_parser.h"
#include "reprise/server/openai/tool_fields.h"
#include "reprise/structured_output/after_reasoning.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

/// The name with which the model's chat template chooses a parser.
inline constexpr std::string_view kParserByTemplate = "auto";

/// The parsers that read the model's output.
struct AnswerReaderOptions {
  /// Whether the model may decide to call a tool. Unset: it may if the form of its calls is known.
  std::optional<bool> enable_auto_tool_choice;
  std::string tool_call_parser;  // empty: none; or kParserByTemplate
  std::string reasoning_parser;  // empty: none; or kParserByTemplate

  friend bool operator==(const AnswerReaderOptions&, const AnswerReaderOptions&) = default;
};

/// Replaces kParserByTemplate by the names that the chat template chose. Without a parser of tool
/// calls, that of the template is taken unless calls are switched off. A model that writes Harmony
/// always gets its reasoning parser, because its text is useless without one. Each choice adds a
/// line to `notes`. Sets enable_auto_tool_choice.
/// \throws InvalidArgument if calls are switched on and the template does not choose a parser
[[nodiscard]] AnswerReaderOptions resolve_parsers(AnswerReaderOptions options,
                                                  const output_parsers::ChosenParsers& chosen,
                                                  std::vector<std::string>& notes);

using output_parsers::CreateOutputParser;

/// `begins_inside`: whether the model's text begins inside the reasoning; nullopt: the default of
/// its family. \throws ApiError 400 when the request needs a parser that this server was not
/// started with
[[nodiscard]] CreateOutputParser answer_parser(const AnswerReaderOptions& options,
                                               const ToolUse& tools,
                                               std::optional<bool> begins_inside = {});

/// Whether the prompt ends inside the reasoning: because the chat template wrote the start of a
/// reasoning, or because the prompt continues (`continues_message`) an answer that had begun to
/// reason. A delimiter that is only mentioned in the conversation does not count. nullopt: the
/// prompt does not show it.
[[nodiscard]] std::optional<bool> ends_in_reasoning(const AnswerReaderOptions& options,
                                                    const tokenizer::Tokenizer& tokenizer,
                                                    std::span<const int32_t> prompt,
                                                    bool continues_message);

/// The tokens around reasoning; constraints begin only after the reasoning. \throws InvalidArgument
/// when the model has no such tokens. Harmony has no delimiters: a constrained answer has no
/// channels.
[[nodiscard]] std::optional<structured_output::ReasoningDelimiters> reasoning_delimiters(
    const AnswerReaderOptions& options,
    const tokenizer::Tokenizer& tokenizer,
    std::optional<bool> begins_inside = {});

}  // namespace reprise::server
