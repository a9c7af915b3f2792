#include "reprise/output_parsers/harmony_parser.h"

#include <array>
#include <optional>

namespace reprise::output_parsers {
namespace {

constexpr std::string_view kMessage = "<|message|>";
// A message begins with one of the first two markers, and ends at any of these.
constexpr std::array<std::string_view, 5> kBoundaries = {
    "<|start|>", "<|channel|>", "<|end|>", "<|return|>", "<|call|>"};
constexpr size_t kNumBeginnings = 2;

/// The word after `key`, up to a blank or the next marker.
std::string_view word_after(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size());
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

}  // namespace

void HarmonyParser::push(std::string_view text, MessageDelta& out) {
  scanner_.push(text);
  while (read(out)) {
  }
}

void HarmonyParser::finish(AnswerEnd end, MessageDelta& out) {
  if (state_ == State::header) {
    pass(header_ + scanner_.take_all(), out);
  } else {
    const std::string rest = scanner_.take_all();
    if (state_ == State::between) {
      pass(rest, out);
    } else {
      add_body(rest, out);
    }
  }
  if (state_ == State::body && kind_ == Kind::call) end_call("", out);
  state_ = State::between;
  if (rest_) rest_->finish(end, out);
}

bool HarmonyParser::read(MessageDelta& out) {
  std::string before;
  if (state_ == State::header) {
    const bool is_found = scanner_.take_until(kMessage, header_);
    if (is_found) begin_body(out);
    return is_found;
  }
  const std::optional<size_t> found = scanner_.take_until_any(kBoundaries, before);
  if (state_ == State::between) {
    pass(before, out);
  } else {
    add_body(before, out);
  }
  if (!found) return false;
  if (state_ == State::body && kind_ == Kind::call) end_call(kBoundaries.at(*found), out);
  if (*found < kNumBeginnings) {
    header_ = kBoundaries.at(*found);
    state_ = State::header;
  } else {
    state_ = State::between;
  }
  return true;
}

void HarmonyParser::begin_body(MessageDelta& out) {
  state_ = State::body;
  const std::string_view channel = word_after(header_, "<|channel|>");
  std::string_view recipient = word_after(header_, "to=");
  if (recipient.starts_with("functions.") && recipient.size() > 10) {
    recipient.remove_prefix(10);
    kind_ = Kind::call;
    name_ = recipient;
    call_.clear();
  } else if (channel == "analysis" || !recipient.empty()) {
    // Messages to the model's built-in tools are treated as reasoning.
    if (has_reasoning_) out.reasoning += '\n';
    has_reasoning_ = true;
    kind_ = Kind::reasoning;
  } else {
    if (has_content_) pass("\n", out);
    has_content_ = true;
    kind_ = Kind::content;
  }
}

void HarmonyParser::add_body(std::string_view text, MessageDelta& out) {
  switch (kind_) {
    case Kind::reasoning:
      out.reasoning += text;
      break;
    case Kind::content:
      pass(text, out);
      break;
    case Kind::call:
      call_ += text;
      break;
  }
}

void HarmonyParser::end_call(std::string_view end_marker, MessageDelta& out) {
  if (calls_ == Calls::pass_as_text) {
    pass(header_, out);
    pass(kMessage, out);
    pass(call_, out);
    if (end_marker == "<|call|>") pass(end_marker, out);
    return;
  }
  // The header already says that this is a call. So arguments that are not JSON are passed on
  // unchanged.
  const std::optional<Json> json = json_of(trimmed(call_));
  writer_.add({name_, json ? compact(*json) : call_}, out);
}

void HarmonyParser::pass(std::string_view text, MessageDelta& out) {
  if (text.empty()) return;
  if (rest_) return rest_->push(text, out);
  writer_.add_content(text, out);
}

}  // namespace reprise::output_parsers
