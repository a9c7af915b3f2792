#include "reprise/server/openai/answer_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_call.h"
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
  if (!options.enable_auto_tool_choice.value_or(false) || options.tool_call_parser.empty()) {
    throw ApiError(
        400,
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set: "
        "the chat template shows no known form of tool calls, or calls are switched off",
        "tool_choice");
  }
  return [name = options.tool_call_parser, schemas = output_parsers::ToolSchemas(use.tools)] {
    return output_parsers::create_tool_parser(name, schemas);
  };
}

/// The id of the first of `delimiters`, if it is one token.
std::optional<int32_t> delimiter_token(const tokenizer::Tokenizer& tokenizer,
                                       const std::vector<std::string_view>& delimiters) {
  return delimiters.empty() ? std::nullopt : tokenizer.token_to_id(delimiters.front());
}

struct Delimiter {
  bool is_found = false;
  size_t begin = 0;
  size_t end = 0;
};

/// The last of any of these delimiters in `text`.
Delimiter last_delimiter(std::string_view text, const std::vector<std::string_view>& delimiters) {
  Delimiter last;
  for (const std::string_view delimiter : delimiters) {
    const size_t at = text.rfind(delimiter);
    if (at == std::string_view::npos || (last.is_found && at < last.begin)) continue;
    last = {.is_found = true, .begin = at, .end = at + delimiter.size()};
  }
  return last;
}

}  // namespace

AnswerReaderOptions resolve_parsers(AnswerReaderOptions options,
                                    const output_parsers::ChosenParsers& chosen,
                                    std::vector<std::string>& notes) {
  const auto choose = [&notes](std::string& option, std::string_view value, std::string_view what) {
    option = value;
    if (value.empty()) {
      notes.push_back(
          fmt::format("no {} fits the chat template; answers keep their delimiters", what));
    } else {
      notes.push_back(fmt::format("{} {}, chosen by the chat template", what, value));
    }
  };
  const bool is_on = options.enable_auto_tool_choice.value_or(true);
  const bool is_left_to_template = options.tool_call_parser.empty() && is_on;
  // If the user did not ask for tool calls and the template shows none, nothing is reported.
  const bool is_told = options.enable_auto_tool_choice || !chosen.tool_call_parser.empty();
  if (options.tool_call_parser == kParserByTemplate || (is_left_to_template && is_told)) {
    choose(options.tool_call_parser, chosen.tool_call_parser, "tool-call parser");
  }
  if (options.enable_auto_tool_choice == true && options.tool_call_parser.empty()) {
    throw InvalidArgument(fmt::format(
        "--enable-auto-tool-choice: the chat template shows no known form of tool calls; name it "
        "with --tool-call-parser: {}",
        fmt::join(output_parsers::tool_parser_names(), ", ")));
  }
  options.enable_auto_tool_choice = is_on && !options.tool_call_parser.empty();
  const bool is_harmony = chosen.reasoning_parser == "openai_gptoss";
  if (options.reasoning_parser == kParserByTemplate ||
      (options.reasoning_parser.empty() && is_harmony)) {
    choose(options.reasoning_parser, chosen.reasoning_parser, "reasoning parser");
  }
  return options;
}

CreateOutputParser answer_parser(const AnswerReaderOptions& options,
                                 const ToolUse& tools,
                                 std::optional<bool> begins_inside) {
  CreateOutputParser rest = tool_parser(options, tools);
  if (options.reasoning_parser.empty()) return rest;
  output_parsers::ReasoningFormat format =
      output_parsers::reasoning_format(options.reasoning_parser);
  const bool is_automatic = tools.choice == ToolUse::Choice::automatic;
  const bool reads_all = is_automatic && format.has_channels &&
                         output_parsers::reads_reasoning_too(options.tool_call_parser);
  if (reads_all) return rest;
  if (begins_inside) format.begins_inside = *begins_inside;
  // If the request forces a call, the answer contains no text that could only look like a call.
  const auto call_at_the_end = is_automatic ? output_parsers::CallAtTheEnd::is_a_call
                                            : output_parsers::CallAtTheEnd::is_reasoning;
  return [format = std::move(format), rest = std::move(rest), call_at_the_end] {
    return output_parsers::create_reasoning_parser(format, rest, call_at_the_end);
  };
}

std::optional<bool> ends_in_reasoning(const AnswerReaderOptions& options,
                                      const tokenizer::Tokenizer& tokenizer,
                                      std::span<const int32_t> prompt,
                                      bool continues_message) {
  if (options.reasoning_parser.empty()) return {};
  const output_parsers::ReasoningFormat format =
      output_parsers::reasoning_format(options.reasoning_parser);
  if (format.has_channels) return {};
  // Delimiters are searched in the text, because they may be several tokens. In a prompt for an
  // answer, no template writes more than this after a delimiter: line ends, a label, an empty
  // reasoning.
  constexpr size_t kMaxTokens = 64;
  const size_t num_tokens = continues_message ? prompt.size() : std::min(prompt.size(), kMaxTokens);
  constexpr bool kSkipSpecialTokens = false;
  const std::string text = tokenizer.decode(prompt.last(num_tokens), kSkipSpecialTokens);
  const Delimiter start = last_delimiter(text, format.starts);
  const Delimiter end = last_delimiter(text, format.ends);
  const bool is_open = start.is_found && (!end.is_found || start.begin > end.begin);
  if (continues_message) return is_open;
  const auto is_last = [&text](const Delimiter& delimiter, std::string_view label) {
    const std::string_view behind =
        output_parsers::trimmed(std::string_view(text).substr(delimiter.end));
    return behind.empty() || behind == output_parsers::trimmed(label);
  };
  if (is_open && is_last(start, format.label)) return true;
  // Earlier answers also end their reasoning. Only if the very last words of the prompt are the end
  // of an empty reasoning does this answer have none.
  return end.is_found && is_last(end, {}) ? std::optional(false) : std::nullopt;
}

std::optional<structured_output::ReasoningDelimiters> reasoning_delimiters(
    const AnswerReaderOptions& options,
    const tokenizer::Tokenizer& tokenizer,
    std::optional<bool> begins_inside) {
  if (options.reasoning_parser.empty()) return {};
  const output_parsers::ReasoningFormat format =
      output_parsers::reasoning_format(options.reasoning_parser);
  if (format.has_channels) return {};
  const std::optional<int32_t> start = delimiter_token(tokenizer, format.starts);
  const std::optional<int32_t> end = delimiter_token(tokenizer, format.ends);
  if (!start || !end) {
    throw InvalidArgument(fmt::format(
        "structured output beside --reasoning-parser {} needs a model with the tokens {} and {}",
        options.reasoning_parser,
        format.starts.front(),
        format.ends.front()));
  }
  return structured_output::ReasoningDelimiters{
      *start, *end, begins_inside.value_or(format.begins_inside)};
}

}  // namespace reprise::server
