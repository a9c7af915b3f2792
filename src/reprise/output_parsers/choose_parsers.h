#pragma once

#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::output_parsers {

/// The sample conversation, which shows how a chat template writes calls and reasoning. Its words
/// are unusual, so that they can be found in the template's output.
inline constexpr std::string_view kSampleQuestion = "samplequestion";
inline constexpr std::string_view kSampleReasoning = "samplereasoning";
inline constexpr std::string_view kSampleContent = "samplecontent";
inline constexpr std::string_view kSampleToolName = "sample_tool";
/// {"sample_key": "sample value", "sample_count": 3}
[[nodiscard]] Json sample_arguments();
/// The tool of that name, as in a request.
[[nodiscard]] Json sample_tools();

/// The output of a chat template for the sample conversation. A text is empty if the template
/// refuses that conversation.
struct TemplateSamples {
  std::string source;        // the template itself
  std::string instructions;  // a prompt with sample_tools()
  // The text after the question in
  std::string generation;  // the prompt of an answer
  std::string call;        // an answer that calls the sample tool
  std::string reasoning;   // an answer with reasoning and content, or with reasoning and a call
};

/// The parsers that fit a model. An empty name: none fits, or more than one does.
struct ChosenParsers {
  std::string_view tool_call_parser;
  std::string_view reasoning_parser;

  friend bool operator==(const ChosenParsers&, const ChosenParsers&) = default;
};

/// A model writes calls and thoughts as its chat template writes those of earlier answers. The
/// parser that finds the sample call in the template's output is the right one. If a template
/// leaves out earlier calls (or thoughts), the delimiters in its text and instructions decide.
[[nodiscard]] ChosenParsers choose_parsers(const TemplateSamples& samples);

}  // namespace reprise::output_parsers
