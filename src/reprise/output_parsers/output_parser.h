#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::output_parsers {

/// What a text adds to one tool call: the first delta of a call has its name.
struct ToolCallDelta {
  int index = 0;
  std::string name;       // empty: the call was begun before
  std::string arguments;  // JSON text, to be appended

  friend bool operator==(const ToolCallDelta&, const ToolCallDelta&) = default;
};

/// What a piece of a model's text means.
struct MessageDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;

  [[nodiscard]] bool empty() const noexcept {
    return reasoning.empty() && content.empty() && tool_calls.empty();
  }
};

/// Reads a model's text piece by piece and appends what it means. Put together, the results do not
/// depend on where the text was cut. Whatever a model writes is a result: what looks like a tool
/// call and is none becomes content. One object per answer.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual void push(std::string_view text, MessageDelta& out) = 0;
  /// The text has ended: what was held back comes out.
  virtual void finish(MessageDelta& out) = 0;
};

}  // namespace reprise::output_parsers
