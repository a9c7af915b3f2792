#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// The meaning of an answer that arrives in these pieces, with the deltas of each call joined.
[[nodiscard]] MessageDelta parse_pieces(const CreateOutputParser& create,
                                        const std::vector<std::string>& pieces,
                                        AnswerEnd end = AnswerEnd::by_model);
[[nodiscard]] MessageDelta parse(const CreateOutputParser& create, const std::string& text);

/// An answer in one format: text, two calls and, if the format allows it, text again.
struct FormatCase {
  std::string_view parser;
  std::string text;
  std::string content;
  std::vector<ToolCallDelta> calls;
};

/// The schemas of the tools that the cases call.
[[nodiscard]] const Json& case_tools();
/// At least one case of each format of tool calls.
[[nodiscard]] std::vector<FormatCase> format_cases();

}  // namespace reprise::output_parsers
