#pragma once

#include <string>
#include <string_view>

#include "reprise/output_parsers/call_bodies.h"
#include "reprise/output_parsers/marker_scanner.h"
#include "reprise/output_parsers/output_parser.h"

namespace reprise::output_parsers {

/// The markers of a format whose calls stand between a start and an end marker.
struct CallMarkers {
  std::string_view begin;
  std::string_view end;
  // Around all calls of an answer; may be empty. Where there are calls, these markers are not
  // content.
  std::string_view outer_begin;
  std::string_view outer_end;
  // Whether a body shows by itself that it is complete, as JSON does. Such a call needs no end
  // marker: that may be the stop token of the model.
  bool may_lack_end = true;
};

/// Parses calls between markers. A text between the markers that is not a call becomes content,
/// together with its markers.
class MarkedCallParser final : public OutputParser {
 public:
  MarkedCallParser(CallMarkers markers, ReadCalls read) : markers_(markers), read_(read) {}

  void push(std::string_view text, MessageDelta& out) override;
  void finish(AnswerEnd end, MessageDelta& out) override;

 private:
  /// Reads as far as possible. Returns false when more text is needed.
  bool read_text(MessageDelta& out);
  bool read_body(MessageDelta& out);
  /// Reports the calls in `body_`, or the body with its markers as content.
  void end_body(std::string_view end_marker, MessageDelta& out);
  void add_content(std::string_view text, MessageDelta& out);
  bool add_calls(std::string_view body, MessageDelta& out);

  CallMarkers markers_;
  ReadCalls read_;
  CallWriter writer_;
  MarkerScanner scanner_;
  std::string body_;         // of the call that is being read
  std::string held_marker_;  // outer_begin and blanks: they are content unless a call follows
  bool in_body_ = false;
};

}  // namespace reprise::output_parsers
