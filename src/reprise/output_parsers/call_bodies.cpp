#include "reprise/output_parsers/call_bodies.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "reprise/output_parsers/pythonic_calls.h"

namespace reprise::output_parsers {
namespace {

std::vector<Call> one_or_none(std::optional<Call> call) {
  std::vector<Call> calls;
  if (call) calls.push_back(*std::move(call));
  return calls;
}

/// Takes the text up to `marker` off the front of `text`; nullopt if the marker is missing.
std::optional<std::string_view> take_before(std::string_view& text, std::string_view marker) {
  const size_t at = text.find(marker);
  if (at == std::string_view::npos) return {};
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + marker.size());
  return before;
}

/// Templates write a value on separate lines; the line ends around the value are not part of it.
std::string_view without_outer_line_ends(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find_first_of(" \t\r\n<>{}\"'") == std::string_view::npos;
}

std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                         text.front() == text.back();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

/// How a format writes the parameters of a call as tags: <open>HEAD>value<close>.
struct ParameterTags {
  std::string_view open;     // "<parameter="
  std::string_view close;    // "</parameter>"
  bool is_verbatim = false;  // line ends around a value are part of it
  // A value that its tag does not mark as text is read as JSON, if it is JSON.
  bool is_json = false;
};

/// Reads `name>` and then parameters. `head` is the text between `open` and `>`.
std::vector<Call> read_tagged_call(std::string_view body, ParameterTags tags) {
  const std::optional<std::string_view> name_text = take_before(body, ">");
  if (!name_text) return {};
  const std::string_view name = unquoted(*name_text);
  if (!is_plain_name(name)) return {};
  Json arguments = Json::object();
  for (body = trimmed(body); !body.empty(); body = trimmed(body)) {
    if (!body.starts_with(tags.open)) return {};  // a text outside of parameters would be lost
    body.remove_prefix(tags.open.size());
    const std::optional<std::string_view> head = take_before(body, ">");
    if (!head) return {};
    std::string_view key = *head;
    bool is_json = tags.is_json;
    if (const size_t at = head->find(" string="); at != std::string_view::npos) {
      key = head->substr(0, at);
      is_json = unquoted(head->substr(at + 8)) != "true";
    }
    key = unquoted(key);
    if (!is_plain_name(key)) return {};
    // A model may forget the end tag of a parameter before the next one.
    const size_t end = body.find(tags.close);
    const size_t next = body.find(tags.open);
    const std::string_view value = body.substr(0, std::min(end, next));
    body.remove_prefix(value.size());
    if (end < next) body.remove_prefix(tags.close.size());
    const std::optional<Json> json = is_json ? json_of(trimmed(value)) : std::nullopt;
    arguments[std::string(key)] =
        json ? *json : Json(std::string(tags.is_verbatim ? value : without_outer_line_ends(value)));
  }
  return {Call{std::string(name), compact(arguments)}};
}

}  // namespace

std::vector<Call> read_json_calls(std::string_view body) {
  const std::optional<Json> json = json_of(trimmed(body));
  if (!json) return {};
  if (!json->is_array()) return one_or_none(call_of(*json));
  std::vector<Call> calls;
  for (const Json& item : *json) {
    std::optional<Call> call = call_of(item);
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

std::vector<Call> read_keyed_calls(std::string_view body) {
  const std::optional<Json> json = json_of(trimmed(body));
  if (!json || !json->is_array()) return {};
  std::vector<Call> calls;
  for (const Json& item : *json) {
    if (!item.is_object() || item.size() != 1 || !item.begin()->is_object()) return {};
    calls.push_back({item.items().begin().key(), compact(*item.begin())});
  }
  return calls;
}

std::vector<Call> read_python_calls(std::string_view body) { return read_pythonic_calls(body); }

std::vector<Call> read_deepseek_v3_call(std::string_view body) {
  if (!take_before(body, "<｜tool▁sep｜>")) return {};
  const std::optional<std::string_view> name = take_before(body, "\n");
  if (!name) return {};
  body = trimmed(body);
  if (body.starts_with("```json")) body.remove_prefix(7);
  if (body.ends_with("```")) body.remove_suffix(3);
  return one_or_none(call_with_object(*name, body));
}

std::vector<Call> read_deepseek_v31_call(std::string_view body) {
  const std::optional<std::string_view> name = take_before(body, "<｜tool▁sep｜>");
  if (!name) return {};
  body = trimmed(body);
  if (body.starts_with("```json")) body.remove_prefix(7);
  if (body.ends_with("```")) body.remove_suffix(3);
  return one_or_none(call_with_object(*name, body));
}

std::vector<Call> read_dsml_call(std::string_view body) {
  return read_tagged_call(body,
                          {.open = "<｜DSML｜parameter name=",
                           .close = "</｜DSML｜parameter>",
                           .is_verbatim = true,
                           .is_json = true});
}

std::vector<Call> read_kimi_call(std::string_view body) {
  const std::optional<std::string_view> head = take_before(body, "<|tool_call_argument_begin|>");
  if (!head) return {};
  // The head is the id of the call: functions.name:0.
  std::string_view name = trimmed(*head);
  if (const size_t colon = name.rfind(':'); colon != std::string_view::npos)
    name = name.substr(0, colon);
  if (name.starts_with("functions.")) name.remove_prefix(10);
  return one_or_none(call_with_object(name, trimmed(body).empty() ? "{}" : body));
}

std::vector<Call> read_glm_call(std::string_view body) {
  constexpr std::string_view kKey = "<arg_key>";
  const std::string_view name = trimmed(body.substr(0, body.find(kKey)));
  if (!is_plain_name(name)) return {};
  body.remove_prefix(std::min(body.find(kKey), body.size()));
  Json arguments = Json::object();
  for (body = trimmed(body); !body.empty(); body = trimmed(body)) {
    if (!body.starts_with(kKey)) return {};
    body.remove_prefix(kKey.size());
    const std::optional<std::string_view> key = take_before(body, "</arg_key>");
    body = trimmed(body);
    if (!key || !body.starts_with("<arg_value>")) return {};
    body.remove_prefix(std::string_view("<arg_value>").size());
    const std::optional<std::string_view> value = take_before(body, "</arg_value>");
    if (!value || trimmed(*key).empty()) return {};
    arguments[std::string(trimmed(*key))] = std::string(*value);
  }
  return {Call{std::string(name), compact(arguments)}};
}

std::vector<Call> read_function_call(std::string_view body) {
  return read_tagged_call(body, {.open = "<parameter=", .close = "</parameter>"});
}

std::vector<Call> read_verbatim_function_call(std::string_view body) {
  return read_tagged_call(body,
                          {.open = "<parameter=", .close = "</parameter>", .is_verbatim = true});
}

std::vector<Call> read_invoke_call(std::string_view body) {
  return read_tagged_call(
      body, {.open = "<parameter name=", .close = "</parameter>", .is_verbatim = true});
}

}  // namespace reprise::output_parsers
