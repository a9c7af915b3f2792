#include "reprise/server/openai/answer_reader.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

CreateOutputParser tool_parser(const AnswerReaderOptions& options, const ToolUse& use) {
  switch (use.choice) {
    case ToolUse::Choice::none:
      return nullptr;
    case ToolUse::Choice::named:
      return [name = use.name] { return output_parsers::create_named_call_parser(name); };
    case ToolUse::Choice::required:
      return [] { return output_parsers::create_required_calls_parser(); };
    case ToolUse::Choice::automatic:
      break;
  }
  if (!options.enable_auto_tool_choice || options.tool_call_parser.empty()) {
    throw ApiError(
        400,
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
        "tool_choice");
  }
  return [name = options.tool_call_parser] { return output_parsers::create_tool_parser(name); };
}

}  // namespace

CreateOutputParser answer_parser(const AnswerReaderOptions& options, const ToolUse& tools) {
  CreateOutputParser rest = tool_parser(options, tools);
  if (options.reasoning_parser.empty()) return rest;
  return [format = output_parsers::reasoning_format(options.reasoning_parser), rest] {
    return output_parsers::create_reasoning_parser(format, rest ? rest() : nullptr);
  };
}

std::optional<structured_output::ReasoningMarks> reasoning_marks(
    const AnswerReaderOptions& options, const tokenizer::Tokenizer& tokenizer) {
  if (options.reasoning_parser.empty()) return {};
  const output_parsers::ReasoningFormat format =
      output_parsers::reasoning_format(options.reasoning_parser);
  const std::optional<int32_t> start = tokenizer.token_to_id(format.start);
  const std::optional<int32_t> end = tokenizer.token_to_id(format.end);
  if (!start || !end) {
    throw InvalidArgument(fmt::format(
        "structured output beside --reasoning-parser {} needs a model with the tokens {} and {}",
        options.reasoning_parser,
        format.start,
        format.end));
  }
  return structured_output::ReasoningMarks{*start, *end, format.begins_inside};
}

}  // namespace reprise::server
