#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "reprise/output_parsers/output_parser.h"
#include "reprise/server/openai/tool_fields.h"
#include "reprise/structured_output/after_reasoning.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

/// The parsers that read the model's output.
struct AnswerReaderOptions {
  bool enable_auto_tool_choice = false;
  std::string tool_call_parser;  // empty: none
  std::string reasoning_parser;  // empty: none
};

/// Makes a parser for one answer; null when the text is the content.
using CreateOutputParser = std::function<std::unique_ptr<output_parsers::OutputParser>()>;

/// \throws ApiError 400 when the request needs a parser that this server was not started with
[[nodiscard]] CreateOutputParser answer_parser(const AnswerReaderOptions& options,
                                               const ToolUse& tools);

/// The tokens around reasoning; constraints begin only after the reasoning. \throws InvalidArgument
/// when the model has no such tokens
[[nodiscard]] std::optional<structured_output::ReasoningMarks> reasoning_marks(
    const AnswerReaderOptions& options, const tokenizer::Tokenizer& tokenizer);

}  // namespace reprise::server
