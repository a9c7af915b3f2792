#pragma once

#include <string>
#include <string_view>

#include "reprise/output_parsers/marker_scanner.h"
#include "reprise/output_parsers/output_parser.h"
#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {

/// Parses answers that are a list of calls in the syntax of Python: [f(a=1), g()]. Llama 4 may
/// write <|python_start|> and <|python_end|> around the list. Any other answer is content.
class PythonicParser final : public OutputParser {
 public:
  void push(std::string_view text, MessageDelta& out) override;
  void finish(AnswerEnd end, MessageDelta& out) override;

 private:
  /// Reads as far as possible. Returns false when more text is needed.
  bool read(bool is_end, MessageDelta& out);

  MarkerScanner scanner_;
  CallWriter writer_;
  std::string skipped_;  // a start marker: it is content if no list follows
  bool is_text_ = false;
};

}  // namespace reprise::output_parsers
