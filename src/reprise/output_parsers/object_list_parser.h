#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/output_parsers/marker_scanner.h"
#include "reprise/output_parsers/output_parser.h"
#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {

/// Parses a series of objects, each of which is a call: the whole answer, or the text after a
/// marker. Nothing marks the end of the series, so the first text that is not a call ends it.
class ObjectListParser final : public OutputParser {
 public:
  struct Style {
    std::array<std::string_view, 2> markers = {};  // a marker before calls; may be empty
    bool may_lack_marker = false;    // an answer that begins with '{' also consists of calls
    bool has_names_outside = false;  // name{...} or name[ARGS]{...}, besides an array of objects
    bool is_array = false;           // the answer is one array and nothing else
  };
  explicit ObjectListParser(Style style) : style_(style) {}

  void push(std::string_view text, MessageDelta& out) override;
  void finish(AnswerEnd end, MessageDelta& out) override;

 private:
  enum class State : uint8_t { start, text, calls, broken };

  void read(bool is_end, MessageDelta& out);
  void decide(bool is_end);
  /// Reads as far as possible. Returns false when more text is needed.
  bool read_call(bool is_end, MessageDelta& out);
  /// Reads brackets, separators and markers; nullopt if there is none at the front.
  std::optional<bool> read_framing(size_t first, bool is_end);
  void skip(size_t num_bytes);
  bool fail();

  Style style_;
  MarkerScanner scanner_;
  CallWriter writer_;
  State state_ = State::start;
  bool in_list_ = false;
  std::string skipped_;  // text since the last call: content if no call follows
};

}  // namespace reprise::output_parsers
