#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::output_parsers {

/// The part of one tool call that a piece of text adds. The first delta of a call has the name.
struct ToolCallDelta {
  int index = 0;
  std::string name;       // empty: an earlier delta had the name
  std::string arguments;  // JSON text, to be appended

  friend bool operator==(const ToolCallDelta&, const ToolCallDelta&) = default;
};

/// The content, reasoning and tool calls that a piece of a model's text adds to the message.
struct MessageDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;

  [[nodiscard]] bool empty() const noexcept {
    return reasoning.empty() && content.empty() && tool_calls.empty();
  }
};

/// Whether the model ended its answer, or a limit did (max_tokens, the context's length).
enum class AnswerEnd : uint8_t { by_model, cut };

/// Reads a model's text piece by piece and appends its meaning to a delta. The sum of the results
/// does not depend on the places where the text was cut. No text is an error: text that only looks
/// like a tool call becomes content. One object reads one answer.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual void push(std::string_view text, MessageDelta& out) = 0;
  /// Ends the text: appends everything that the parser has held back.
  virtual void finish(AnswerEnd end, MessageDelta& out) = 0;
};

/// Makes a parser for one answer. An empty function: the text is the content.
using CreateOutputParser = std::function<std::unique_ptr<OutputParser>()>;

}  // namespace reprise::output_parsers
