#include "reprise/bench/json_stream.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::bench {
namespace {

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonStream::JsonStream(const std::filesystem::path& path, Form form)
    : path_(path), form_(form), file_(path, std::ios::binary) {
  if (!std::filesystem::is_regular_file(path_) || !file_) {
    throw FileError("E_DATASET", path_.string(), "", "is not a file that can be read");
  }
}

void JsonStream::refuse(std::string_view code, size_t line, std::string_view why) const {
  throw FileError(code, path_.string(), fmt::format("line {}", line), why);
}

Json JsonStream::parse(std::string_view text, size_t line) const {
  try {
    return parse_json(text, "value", {.max_bytes = kMaxRecordBytes});
  } catch (const InvalidArgument& error) {
    refuse("E_DATASET", line, error.what());
  }
}

bool JsonStream::next(JsonRecord& record) {
  return form_ == Form::lines ? next_line(record) : next_element(record);
}

int JsonStream::get() {
  const int c = file_.get();
  if (c == '\n') ++line_;
  if (file_.bad()) refuse("E_DATASET", line_, "cannot be read");
  return c;
}

int JsonStream::get_after_space() {
  int c = get();
  while (is_space(c)) c = get();
  return c;
}

bool JsonStream::next_line(JsonRecord& record) {
  for (;;) {
    const size_t line = line_;
    std::string text;
    bool is_blank = true;
    int c = get();
    if (c == EOF) return false;
    for (; c != EOF && c != '\n'; c = get()) {
      is_blank = is_blank && is_space(c);
      text.push_back(static_cast<char>(c));
      if (text.size() > kMaxRecordBytes) refuse("E_DATASET", line, "is longer than 16 MiB");
    }
    if (is_blank) continue;
    record = {.value = parse(text, line), .line = line};
    return true;
  }
}

// Finds the end of the value: the place outside strings where all open brackets are closed. The
// parser then checks that the value is JSON.
std::string JsonStream::read_element(int first, size_t line) {
  std::string text;
  int depth = 0;
  bool in_string = false;
  bool is_escaped = false;
  for (int c = first;; c = get()) {
    if (c == EOF) refuse("E_TRUNCATED", line, "the file ends inside the value that begins here");
    if (!in_string && depth == 0 && (c == ',' || c == ']' || is_space(c)) && !text.empty()) {
      file_.unget();
      if (c == '\n') --line_;
      return text;
    }
    text.push_back(static_cast<char>(c));
    if (text.size() > kMaxRecordBytes) {
      refuse("E_DATASET", line, "the value that begins here is longer than 16 MiB");
    }
    if (in_string) {
      if (!is_escaped && c == '"') in_string = false;
      is_escaped = !is_escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (!in_string && depth == 0 && (c == '}' || c == ']' || c == '"')) return text;
  }
}

bool JsonStream::next_element(JsonRecord& record) {
  if (has_ended_) return false;
  int c = get_after_space();
  bool has_element = c == ',';
  if (!has_begun_) {
    if (c != '[') refuse("E_DATASET", line_, "expected a JSON array, '[', at the beginning");
    has_begun_ = true;
    c = get_after_space();
    has_element = c != ']';
  } else if (has_element) {
    c = get_after_space();
  }
  if (has_element) {
    const size_t line = line_;
    record = {.value = parse(read_element(c, line), line), .line = line};
    return true;
  }
  if (c == EOF) refuse("E_TRUNCATED", line_, "the file ends before the array does");
  if (c != ']') refuse("E_DATASET", line_, "expected ',' or ']' after a value");
  if (get_after_space() != EOF) refuse("E_DATASET", line_, "expected nothing after the array");
  has_ended_ = true;
  return false;
}

}  // namespace reprise::bench
