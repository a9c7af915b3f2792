#include "reprise/server/http/access_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace reprise::server {
namespace {

struct RequestLine {
  std::string_view method;
  std::string_view path;
  std::string_view query;
};

RequestLine split_request_line(std::string_view line) {
  const size_t end_of_method = std::min(line.find(' '), line.size());
  std::string_view target = line.substr(std::min(end_of_method + 1, line.size()));
  target = target.substr(0, target.find(' '));
  const size_t end_of_path = std::min(target.find('?'), target.size());
  return {.method = line.substr(0, end_of_method),
          .path = target.substr(0, end_of_path),
          .query = target.substr(std::min(end_of_path + 1, target.size()))};
}

/// A quotation mark of the client must not end the quoted request line.
std::string in_quotes(std::string_view request_line) {
  std::string text = "\"";
  for (const char c : request_line) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

void add_number(std::string_view name,
                const std::optional<int64_t>& number,
                std::string& text,
                LogFields& fields) {
  if (!number) return;
  text += fmt::format(" {}={}", name, *number);
  fields.emplace_back(name, *number);
}

void add_text(std::string_view name,
              const std::string& value,
              std::string& text,
              LogFields& fields) {
  if (value.empty()) return;
  text += fmt::format(" {}={}", name, value);
  fields.emplace_back(name, value);
}

}  // namespace

void AccessLog::write(const AnsweredRequest& request) const {
  if (!is_on_ || !log_.has(LogLevel::info)) return;
  const RequestLine line = split_request_line(request.request_line);
  if (std::ranges::find(unlogged_paths_, line.path) != unlogged_paths_.end()) return;
  std::string text = fmt::format("{} - {} {} {} duration={:.3f}s",
                                 request.peer,
                                 in_quotes(request.request_line),
                                 request.status,
                                 reason_phrase(request.status),
                                 request.seconds);
  LogFields fields = {{"client", request.peer},
                      {"method", line.method},
                      {"path", line.path},
                      {"status", request.status},
                      {"duration_seconds", request.seconds}};
  if (!line.query.empty()) fields.emplace_back("query", line.query);
  add_number("prompt_tokens", request.facts.prompt_tokens, text, fields);
  add_number("cached_tokens", request.facts.cached_tokens, text, fields);
  add_number("completion_tokens", request.facts.completion_tokens, text, fields);
  add_text("finish_reason", request.facts.finish_reason, text, fields);
  add_text("request_id", request.facts.request_id, text, fields);
  log_.write(LogLevel::info, "access", text, fields);
}

}  // namespace reprise::server
