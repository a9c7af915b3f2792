#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "reprise/output_parsers/call_bodies.h"

namespace reprise::output_parsers {
namespace {

constexpr int kMaxGemmaDepth = 32;

/// Reads `name{key:value,...}`, in which a text stands between two equal delimiters and every other
/// scalar has none.
class GemmaReader {
 public:
  GemmaReader(std::string_view text, std::string_view delimiter)
      : text_(text), delimiter_(delimiter) {}

  std::vector<Call> read_call() {
    const size_t brace = text_.find('{');
    if (brace == std::string_view::npos) return {};
    const std::string_view name = trimmed(text_.substr(0, brace));
    if (name.empty() || name.find_first_of(" \t\r\n<>\"':") != std::string_view::npos) return {};
    at_ = brace;
    Json arguments;
    if (!read_object(arguments, 0)) return {};
    skip_blanks();
    if (at_ != text_.size()) return {};
    return {Call{std::string(name), compact(arguments)}};
  }

 private:
  bool read_object(Json& out, int depth) {
    ++at_;
    out = Json::object();
    while (!take("}")) {
      std::string key;
      if (take(delimiter_)) {
        if (!read_text(key)) return false;
      } else {
        const size_t colon = text_.find(':', at_);
        if (colon == std::string_view::npos) return false;
        key = std::string(trimmed(text_.substr(at_, colon - at_)));
        at_ = colon;
      }
      if (key.empty() || key.find_first_of("{}[],") != std::string::npos || !take(":"))
        return false;
      if (!read_value(out[key], depth + 1)) return false;
      if (!take(",")) return take("}");
    }
    return true;
  }

  bool read_list(Json& out, int depth) {
    ++at_;
    out = Json::array();
    while (!take("]")) {
      if (!read_value(out.emplace_back(), depth + 1)) return false;
      if (!take(",")) return take("]");
    }
    return true;
  }

  bool read_value(Json& out, int depth) {
    skip_blanks();
    if (depth > kMaxGemmaDepth || at_ >= text_.size()) return false;
    if (take(delimiter_)) {
      std::string value;
      if (!read_text(value)) return false;
      out = std::move(value);
      return true;
    }
    if (text_[at_] == '{') return read_object(out, depth);
    if (text_[at_] == '[') return read_list(out, depth);
    const size_t end = std::min(text_.find_first_of(",}]", at_), text_.size());
    const std::string_view word = trimmed(text_.substr(at_, end - at_));
    at_ = end;
    if (word.empty()) return false;
    // A number that JSON would write differently may be a text: the schema decides later.
    const std::optional<Json> json = json_of(word);
    out = json && compact(*json) == word ? *json : Json(std::string(word));
    return true;
  }

  /// Reads the text up to the next delimiter; the delimiter before it was read already.
  bool read_text(std::string& out) {
    const size_t end = text_.find(delimiter_, at_);
    if (end == std::string_view::npos) return false;
    out = std::string(text_.substr(at_, end - at_));
    at_ = end + delimiter_.size();
    return true;
  }

  bool take(std::string_view wanted) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() && kBlanks.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  std::string_view text_;
  std::string_view delimiter_;
  size_t at_ = 0;
};

std::vector<Call> read_gemma(std::string_view body, std::string_view delimiter) {
  body = trimmed(body);
  if (body.starts_with("call:")) {
    body.remove_prefix(5);
  } else if (body.starts_with(':')) {  // some checkpoints leave out the word
    body.remove_prefix(1);
  } else {
    return {};
  }
  return GemmaReader(body, delimiter).read_call();
}

}  // namespace

std::vector<Call> read_gemma4_call(std::string_view body) { return read_gemma(body, "<|\"|>"); }

std::vector<Call> read_functiongemma_call(std::string_view body) {
  return read_gemma(body, "<escape>");
}

}  // namespace reprise::output_parsers
