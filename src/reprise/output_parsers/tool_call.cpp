#include "reprise/output_parsers/tool_call.h"

#include <utility>

#include "reprise/base/error.h"

namespace reprise::output_parsers {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<Json> json_of(std::string_view text) {
  try {
    return parse_json(text, "tool call", {.max_bytes = kMaxCallBytes});
  } catch (const InvalidArgument&) {
    return {};
  }
}

std::string compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Call> call_with_object(std::string_view name, std::string_view arguments) {
  name = trimmed(name);
  if (name.empty() || name.find_first_of(" \t\r\n<>{}\"") != std::string_view::npos) return {};
  const std::optional<Json> json = json_of(trimmed(arguments));
  if (!json || !json->is_object()) return {};
  return Call{std::string(name), compact(*json)};
}

std::optional<Call> call_of(const Json& json) {
  if (!json.is_object()) return {};
  auto name = json.find("name");
  if (name == json.end()) name = json.find("tool_name");
  if (name == json.end() || !name->is_string() || name->get_ref<const std::string&>().empty())
    return {};
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (arguments == json.end()) return {};
  if (arguments->is_string()) return Call{*name, arguments->get<std::string>()};
  if (!arguments->is_object() && !arguments->is_null()) return {};
  return Call{*name, arguments->is_null() ? "{}" : compact(*arguments)};
}

std::optional<Call> call_of(std::string_view text) {
  const std::optional<Json> json = json_of(trimmed(text));
  return json ? call_of(*json) : std::nullopt;
}

void CallWriter::add(Call call, MessageDelta& out) {
  held_blanks_.clear();
  out.tool_calls.push_back({num_calls_++, std::move(call.name), std::move(call.arguments)});
}

void CallWriter::add_content(std::string_view text, MessageDelta& out) {
  if (text.empty()) return;
  if (num_calls_ == 0) {
    out.content += text;
    return;
  }
  held_blanks_ += text;
  const size_t last = held_blanks_.find_last_not_of(kBlanks);
  if (last == std::string::npos) return;
  out.content.append(held_blanks_, 0, last + 1);
  held_blanks_.erase(0, last + 1);
}

}  // namespace reprise::output_parsers
