#include "reprise/output_parsers/pythonic_parser.h"

#include <utility>
#include <vector>

#include "reprise/output_parsers/pythonic_calls.h"

namespace reprise::output_parsers {
namespace {

constexpr std::string_view kPythonStart = "<|python_start|>";
constexpr std::string_view kPythonEnd = "<|python_end|>";

}  // namespace

void PythonicParser::push(std::string_view text, MessageDelta& out) {
  scanner_.push(text);
  while (!is_text_ && read(false, out)) {
  }
  if (!is_text_) return;
  writer_.add_content(std::exchange(skipped_, {}), out);
  writer_.add_content(scanner_.take_all(), out);
}

void PythonicParser::finish(AnswerEnd, MessageDelta& out) {
  while (!is_text_ && read(true, out)) {
  }
  writer_.add_content(std::exchange(skipped_, {}), out);
  writer_.add_content(scanner_.take_all(), out);
}

bool PythonicParser::read(bool is_end, MessageDelta& out) {
  const std::string_view held = scanner_.held();
  const size_t first = held.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return false;
  const std::string_view rest = held.substr(first);
  const std::string_view marker = writer_.num_calls() == 0 ? kPythonStart : kPythonEnd;
  if (rest.starts_with(marker)) {
    // The end marker is dropped. The start marker is kept, because it may turn out to be content.
    if (writer_.num_calls() == 0) skipped_.append(held, 0, first + marker.size());
    scanner_.drop(first + marker.size());
    return true;
  }
  if (!is_end && marker.starts_with(rest)) return false;
  if (!may_begin_pythonic_list(rest)) {
    is_text_ = true;
    return false;
  }
  const size_t size = end_of_pythonic_list(rest);
  if (size == std::string_view::npos) {
    is_text_ = rest.size() > kMaxCallBytes;
    return false;
  }
  std::vector<Call> calls = read_pythonic_calls(rest.substr(0, size));
  if (calls.empty()) {
    is_text_ = true;
    return false;
  }
  for (Call& call : calls) writer_.add(std::move(call), out);
  skipped_.clear();
  scanner_.drop(first + size);
  return true;
}

}  // namespace reprise::output_parsers
