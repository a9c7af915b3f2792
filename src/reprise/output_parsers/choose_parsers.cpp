#include "reprise/output_parsers/choose_parsers.h"

#include <algorithm>
#include <array>

namespace reprise::output_parsers {
namespace {

/// A format is recognised when the template holds all its marks.
struct Signs {
  std::string_view parser;
  std::array<std::string_view, 2> marks;
};

// Ordered: formats with marks of their own come before formats that share a mark with others.
constexpr auto kToolSigns = std::to_array<Signs>({
    {"openai", {"<|channel|>", "to=functions."}},
    {"kimi_k2", {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}},
    {"deepseek_v32", {"<｜DSML｜", "invoke name="}},
    {"deepseek_v3", {"<｜tool▁sep｜>", "```json"}},
    {"deepseek_v31", {"<｜tool▁sep｜>", "<｜tool▁call▁begin｜>"}},
    {"glm45", {"<arg_key>", "<arg_value>"}},
    {"seed_oss", {"<seed:tool_call>", "<function="}},
    {"qwen3_coder", {"<function=", "<parameter="}},
    {"minimax_m2", {"<minimax:tool_call>", "<invoke name="}},
    {"functiongemma", {"<start_function_call>", "<escape>"}},
    {"gemma4", {"<|tool_call>", "<tool_call|>"}},
    {"lfm2", {"<|tool_call_start|>", "<|tool_call_end|>"}},
    {"olmo3", {"<function_calls>", "</function_calls>"}},
    {"longcat", {"<longcat_tool_call>", "</longcat_tool_call>"}},
    {"cohere_command3", {"<|START_ACTION|>", "<|END_ACTION|>"}},
    {"apertus", {"<|tools_prefix|>", "<|tools_suffix|>"}},
    {"internlm", {"<|action_start|>", "<|plugin|>"}},
    {"phi4_mini_json", {"functools", "<|tool|>"}},
    {"mistral", {"[TOOL_CALLS]", "[AVAILABLE_TOOLS]"}},
    {"llama4_pythonic", {"<|header_start|>", "<|python_start|>"}},
    {"granite", {"<|start_of_role|>", "<|tool_call|>"}},
    {"hermes", {"<tool_call>", "</tool_call>"}},
    {"llama3_json", {"<|start_header_id|>", "\"parameters\""}},
});

constexpr auto kReasoningSigns = std::to_array<Signs>({
    {"openai_gptoss", {"<|channel|>", "analysis"}},
    {"mistral", {"[THINK]", "[/THINK]"}},
    {"gemma4", {"<|channel>", "<channel|>"}},
    {"seed_oss", {"<seed:think>", "</seed:think>"}},
    {"minimax_m2", {"<minimax:tool_call>", "</think>"}},
    {"kimi_k2", {"<|tool_call_begin|>", "</think>"}},
    {"glm45", {"<arg_key>", "</think>"}},
    {"deepseek_r1", {"<｜Assistant｜><think>", "</think>"}},
    {"qwen3", {"<|im_start|>", "</think>"}},
});

template <class List>
std::string_view first_with_signs(const List& list, std::string_view text) {
  const auto* found = std::find_if(list.begin(), list.end(), [text](const Signs& signs) {
    return std::all_of(signs.marks.begin(), signs.marks.end(), [text](std::string_view mark) {
      return text.find(mark) != std::string_view::npos;
    });
  });
  return found == list.end() ? std::string_view{} : found->parser;
}

}  // namespace

ChosenParsers parsers_of_template(std::string_view chat_template) noexcept {
  return {.tool_call_parser = first_with_signs(kToolSigns, chat_template),
          .reasoning_parser = first_with_signs(kReasoningSigns, chat_template)};
}

}  // namespace reprise::output_parsers
