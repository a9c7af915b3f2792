#include "reprise/output_parsers/marked_call_parser.h"

#include <array>
#include <optional>
#include <utility>

namespace reprise::output_parsers {

void MarkedCallParser::push(std::string_view text, MessageDelta& out) {
  scanner_.push(text);
  while (in_body_ ? read_body(out) : read_text(out)) {
  }
}

void MarkedCallParser::finish(AnswerEnd, MessageDelta& out) {
  if (in_body_) {
    body_ += scanner_.take_all();
    const size_t num_partial = partial_marker(body_, markers_.end);
    const std::string_view body = std::string_view(body_).substr(0, body_.size() - num_partial);
    if (!markers_.may_lack_end || !add_calls(body, out)) {
      add_content(markers_.begin, out);
      add_content(body_, out);
    }
    in_body_ = false;
  }
  add_content(scanner_.take_all(), out);
  writer_.add_content(std::exchange(held_marker_, {}), out);
}

bool MarkedCallParser::read_text(MessageDelta& out) {
  const std::array<std::string_view, 3> markers = {
      markers_.begin, markers_.outer_begin, markers_.outer_end};
  std::string before;
  const std::optional<size_t> found = scanner_.take_until_any(markers, before);
  add_content(before, out);
  if (!found) return false;
  if (*found == 0) {
    in_body_ = true;
    body_.clear();
  } else if (*found == 1) {
    writer_.add_content(std::exchange(held_marker_, std::string(markers_.outer_begin)), out);
  } else if (writer_.num_calls() == 0 || !held_marker_.empty()) {
    add_content(markers_.outer_end, out);
  }
  return true;
}

bool MarkedCallParser::read_body(MessageDelta& out) {
  if (scanner_.take_until(markers_.end, body_)) {
    end_body(markers_.end, out);
    in_body_ = false;
    return true;
  }
  if (body_.size() <= kMaxCallBytes) return false;
  add_content(markers_.begin, out);
  add_content(body_, out);
  in_body_ = false;
  return true;
}

void MarkedCallParser::end_body(std::string_view end_marker, MessageDelta& out) {
  if (add_calls(body_, out)) return;
  // If the beginning marker occurs again in the body, the model may have begun the call anew.
  const size_t again = body_.rfind(markers_.begin);
  if (again != std::string::npos) {
    const std::string_view body = std::string_view(body_).substr(again + markers_.begin.size());
    const std::vector<Call> calls = read_(body);
    if (!calls.empty()) {
      add_content(markers_.begin, out);
      add_content(std::string_view(body_).substr(0, again), out);
      (void)add_calls(body, out);
      return;
    }
  }
  add_content(markers_.begin, out);
  add_content(body_, out);
  add_content(end_marker, out);
}

bool MarkedCallParser::add_calls(std::string_view body, MessageDelta& out) {
  std::vector<Call> calls = read_(body);
  for (Call& call : calls) writer_.add(std::move(call), out);
  if (!calls.empty()) held_marker_.clear();
  return !calls.empty();
}

void MarkedCallParser::add_content(std::string_view text, MessageDelta& out) {
  if (!held_marker_.empty()) {
    const size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
      held_marker_ += text;
      return;
    }
    writer_.add_content(std::exchange(held_marker_, {}), out);
  }
  writer_.add_content(text, out);
}

}  // namespace reprise::output_parsers
