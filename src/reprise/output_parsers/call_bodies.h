#pragma once

#include <string_view>
#include <vector>

#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {

/// The calls in the text between a start and an end marker. Empty if the text is malformed.
using ReadCalls = std::vector<Call> (*)(std::string_view body);

/// {"name": ..., "arguments": ...}, or an array of these.
[[nodiscard]] std::vector<Call> read_json_calls(std::string_view body);
/// Apertus: [{"name": {arguments}}, ...].
[[nodiscard]] std::vector<Call> read_keyed_calls(std::string_view body);
/// Python syntax: see pythonic_calls.h.
[[nodiscard]] std::vector<Call> read_python_calls(std::string_view body);
/// DeepSeek-V3 and R1: `type<｜tool▁sep｜>name`, a line end, the arguments in a fenced block.
[[nodiscard]] std::vector<Call> read_deepseek_v3_call(std::string_view body);
/// DeepSeek-V3.1: `name<｜tool▁sep｜>{arguments}`.
[[nodiscard]] std::vector<Call> read_deepseek_v31_call(std::string_view body);
/// DeepSeek-V3.2, after `<｜DSML｜invoke name=`: `"name">` and parameters in tags, which say
/// whether a value is text.
[[nodiscard]] std::vector<Call> read_dsml_call(std::string_view body);
/// Kimi: `functions.name:0<|tool_call_argument_begin|>{arguments}`.
[[nodiscard]] std::vector<Call> read_kimi_call(std::string_view body);
/// GLM: `name`, then <arg_key>key</arg_key><arg_value>value</arg_value> for each argument.
[[nodiscard]] std::vector<Call> read_glm_call(std::string_view body);
/// Qwen3-Coder, after `<function=`: `name>` and <parameter=key>value</parameter>.
[[nodiscard]] std::vector<Call> read_function_call(std::string_view body);
/// MiMo: the same, but line ends around a value belong to it.
[[nodiscard]] std::vector<Call> read_verbatim_function_call(std::string_view body);
/// MiniMax, after `<invoke name=`: `"name">` and <parameter name="key">value</parameter>.
[[nodiscard]] std::vector<Call> read_invoke_call(std::string_view body);
/// Gemma 4: `call:name{key:<|"|>text<|"|>,other:42}`.
[[nodiscard]] std::vector<Call> read_gemma4_call(std::string_view body);
/// FunctionGemma: `call:name{key:<escape>text<escape>}`.
[[nodiscard]] std::vector<Call> read_functiongemma_call(std::string_view body);

}  // namespace reprise::output_parsers
