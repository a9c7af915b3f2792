#include "reprise/output_parsers/object_list_parser.h"

#include <utility>

namespace reprise::output_parsers {
namespace {

bool may_be_call_name(std::string_view text) {
  return text.size() < 256 && text.find_first_of("\n\"{}") == std::string_view::npos;
}

std::optional<Call> call_in(std::string_view name, std::string_view object) {
  if (name.empty()) return call_of(object);
  if (const size_t at = name.find("[ARGS]"); at != std::string_view::npos)
    name = name.substr(0, at);
  if (const size_t at = name.find("[CALL_ID]"); at != std::string_view::npos)
    name = name.substr(0, at);
  const std::optional<Json> json = json_of(object);
  if (!json || trimmed(name).empty()) return {};
  return Call{std::string(trimmed(name)), compact(*json)};
}

}  // namespace

void ObjectListParser::push(std::string_view text, MessageDelta& out) {
  scanner_.push(text);
  read(false, out);
}

void ObjectListParser::finish(AnswerEnd, MessageDelta& out) {
  read(true, out);
  // An array that a tool_choice forced has no prose. What max_tokens or a stop string left of its
  // last call is no content: a client would show it, or send it back to the model as its words.
  // Nor is it a call, whose arguments an agent would have to repair. The complete calls count, and
  // the finish reason "length" says that more was to come. vLLM's content is empty here too.
  if (style_.is_array && state_ == State::calls) {
    (void)scanner_.take_all();
    skipped_.clear();
    return;
  }
  const std::string rest = scanner_.take_all();
  // Separators and brackets after the last call are not content.
  const bool is_only_framing =
      rest.empty() && skipped_.find_first_not_of(" \t\r\n,;]") == std::string::npos;
  if (writer_.num_calls() == 0 || !is_only_framing) writer_.add_content(skipped_, out);
  writer_.add_content(rest, out);
  skipped_.clear();
}

void ObjectListParser::read(bool is_end, MessageDelta& out) {
  if (state_ == State::start) decide(is_end);
  if (state_ == State::text) {
    std::string before;
    const std::optional<size_t> found = scanner_.take_until_any(style_.markers, before);
    if (found) {
      state_ = State::calls;
      skipped_ = style_.markers.at(*found);
    }
    writer_.add_content(before, out);
  }
  while (state_ == State::calls && read_call(is_end, out)) {
  }
  if (state_ == State::broken) {
    writer_.add_content(std::exchange(skipped_, {}), out);
    writer_.add_content(scanner_.take_all(), out);
  }
}

void ObjectListParser::decide(bool is_end) {
  const std::string_view text = scanner_.held();
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos && !is_end) return;
  const bool is_calls = style_.is_array || (style_.may_lack_marker &&
                                            first != std::string_view::npos && text[first] == '{');
  state_ = is_calls ? State::calls : style_.markers[0].empty() ? State::broken : State::text;
}

std::optional<bool> ObjectListParser::read_framing(size_t first, bool is_end) {
  const std::string_view rest = std::string_view(scanner_.held()).substr(first);
  for (const std::string_view marker : style_.markers) {
    if (marker.empty()) continue;
    if (rest.starts_with(marker)) {
      skip(first + marker.size());
      return true;
    }
    if (!is_end && marker.starts_with(rest)) return false;
  }
  const char c = rest[0];
  if (c != ';' && c != ',' && (c != '[' || in_list_) && (c != ']' || !in_list_)) return {};
  skip(first + 1);
  if (c == '[') in_list_ = true;
  if (c == ']') {
    in_list_ = false;
    // The end of a list of calls is not content, whatever follows.
    if (skipped_.find_first_not_of(" \t\r\n,;]") == std::string::npos) skipped_.clear();
  }
  return true;
}

bool ObjectListParser::read_call(bool is_end, MessageDelta& out) {
  const std::string& held = scanner_.held();
  const size_t first = held.find_first_not_of(kBlanks);
  if (first == std::string::npos) return false;
  if (const std::optional<bool> framing = read_framing(first, is_end)) return *framing;
  size_t begin = first;
  if (held[first] != '{') {
    begin = style_.has_names_outside ? held.find('{', first) : std::string::npos;
    if (begin == std::string::npos && style_.has_names_outside &&
        may_be_call_name(std::string_view(held).substr(first))) {
      return false;
    }
    if (begin == std::string::npos) return fail();
  }
  const std::string_view name = std::string_view(held).substr(first, begin - first);
  if (!may_be_call_name(name)) return fail();
  const size_t size = end_of_json(std::string_view(held).substr(begin));
  if (size == std::string::npos) {
    if (held.size() > kMaxCallBytes) return fail();
    return false;
  }
  std::optional<Call> call = call_in(name, std::string_view(held).substr(begin, size));
  if (!call) return fail();
  scanner_.drop(begin + size);
  skipped_.clear();
  writer_.add(std::move(*call), out);
  return true;
}

void ObjectListParser::skip(size_t num_bytes) {
  skipped_.append(scanner_.held(), 0, num_bytes);
  scanner_.drop(num_bytes);
}

bool ObjectListParser::fail() {
  state_ = State::broken;
  return false;
}

}  // namespace reprise::output_parsers
