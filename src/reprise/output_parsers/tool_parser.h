#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// Finds tool calls in the format of a family of models: "hermes" (also Qwen's), "llama3_json",
/// "mistral", "deepseek_v3", "deepseek_v31". A call is reported as a whole, when its end was read.
/// \throws InvalidArgument with the known names
[[nodiscard]] std::unique_ptr<OutputParser> create_tool_parser(std::string_view name);
[[nodiscard]] std::vector<std::string_view> tool_parser_names();

/// For a tool_choice with a name: the whole answer is the arguments of one call of `name`.
[[nodiscard]] std::unique_ptr<OutputParser> create_named_call_parser(std::string name);
/// For tool_choice "required": the whole answer is an array of {"name": ..., "parameters": {...}}.
[[nodiscard]] std::unique_ptr<OutputParser> create_required_calls_parser();

}  // namespace reprise::output_parsers
