#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// Finds the tool calls that a family of models writes: "hermes" (also Qwen's), "llama3_json",
/// "mistral", "deepseek_v3", "deepseek_v31". The parser gives out a call as a whole, when the call
/// is closed.
/// \throws InvalidArgument with the known names
[[nodiscard]] std::unique_ptr<OutputParser> create_tool_parser(std::string_view name);
[[nodiscard]] std::vector<std::string_view> tool_parser_names();

/// The answer is the arguments of one call of `name`, and nothing else: tool_choice named it.
[[nodiscard]] std::unique_ptr<OutputParser> create_named_call_parser(std::string name);
/// The answer is an array of {"name": ..., "parameters": {...}}: tool_choice "required".
[[nodiscard]] std::unique_ptr<OutputParser> create_required_calls_parser();

}  // namespace reprise::output_parsers
