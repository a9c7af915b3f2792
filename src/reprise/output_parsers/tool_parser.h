#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/output_parser.h"
#include "reprise/output_parsers/tool_schemas.h"

namespace reprise::output_parsers {

/// One format of tool calls, by vLLM's name of its parser.
struct ToolParserInfo {
  std::string_view name;
  std::string_view models;
  std::string_view form;  // how a call is written
};

/// All formats, in the order of the reference.
[[nodiscard]] std::vector<ToolParserInfo> tool_parsers();
[[nodiscard]] std::vector<std::string_view> tool_parser_names();

/// Finds tool calls in the format of a family of models. A call is reported as a whole, when its
/// end was read. If vLLM's parser of a format retypes arguments, they get the types that `schemas`
/// demand. \throws InvalidArgument with the known names
[[nodiscard]] std::unique_ptr<OutputParser> create_tool_parser(std::string_view name,
                                                               const ToolSchemas& schemas = {});

/// True for "openai": its format has channels, so that this parser also finds the reasoning.
[[nodiscard]] bool reads_reasoning_too(std::string_view tool_parser) noexcept;

/// For a tool_choice that names a tool: the whole answer is the arguments of one call of `name`.
[[nodiscard]] std::unique_ptr<OutputParser> create_named_call_parser(std::string name);
/// For tool_choice "required": the whole answer is an array of {"name": ..., "parameters": {...}}.
[[nodiscard]] std::unique_ptr<OutputParser> create_required_calls_parser();

}  // namespace reprise::output_parsers
