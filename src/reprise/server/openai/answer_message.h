#pragma once

#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/output_parsers/output_parser.h"

namespace reprise::server {

/// The parts besides the content of one choice's message, as far as its parser has read it.
class AnswerMessage {
 public:
  /// Members for the delta of a chunk besides its content: reasoning, tool_calls.
  [[nodiscard]] Json take(const output_parsers::MessageDelta& delta);
  /// The same for the whole message.
  [[nodiscard]] Json whole() const;
  [[nodiscard]] bool has_calls() const noexcept { return !calls_.empty(); }

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };

  std::string reasoning_;
  std::vector<Call> calls_;
};

}  // namespace reprise::server
