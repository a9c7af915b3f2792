#include "reprise/server/openai/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/tool_fields.h"

namespace reprise::server {
namespace {

constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};

/// Reads a content part in the form of templates. `place`: "messages[0].content[0]".
Json read_part(const Json& json, const std::string& place) {
  if (!json.is_object()) refuse_type(place, "an object", json);
  const RequestFields part(json);
  const std::string type = part.text("type").value_or("");
  if (type == "thinking" || type == "reasoning") {
    std::optional<std::string> thought = part.text(type);
    if (!thought) thought = part.text("text");
    if (!thought)
      throw ApiError(400, fmt::format("A content part of type {} needs a text.", type), place);
    return {{"type", "thinking"}, {"thinking", *thought}};
  }
  if (type != "text") refuse_unsupported(place, "Message content other than text");
  const std::optional<std::string> text = part.text("text");
  if (!text) throw ApiError(400, "A content part of type text needs a text.", place);
  return {{"type", "text"}, {"text", *text}};
}

/// Reads content as a string, or as a list of parts. `place`: "messages[0].content".
Json read_content(const Json& content, const std::string& place) {
  if (content.is_string()) return content;
  if (!content.is_array()) refuse_type(place, "a string or an array of parts", content);
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i)
    parts.push_back(read_part(content[i], fmt::format("{}[{}]", place, i)));
  return parts;
}

/// The reasoning of an earlier answer, under any of the names that servers give it.
std::optional<std::string> read_reasoning(const RequestFields& message) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    if (std::optional<std::string> reasoning = message.text(name)) return reasoning;
  }
  return std::nullopt;
}

std::string read_role(const RequestFields& message, const std::string& place) {
  const std::string role_place = place + ".role";
  const Json* role = message.find("role");
  if (role == nullptr) throw ApiError(400, "Every message needs a role.", role_place);
  if (!role->is_string()) refuse_type(role_place, "a string", *role);
  std::string name = role->get<std::string>();
  if (name == "function") refuse_unsupported(place, "A message of role function; use role tool,");
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end()) {
    throw ApiError(400,
                   fmt::format("{} is `{}`, expected one of {}.",
                               role_place,
                               name.substr(0, 64),
                               fmt::join(kRoles, ", ")),
                   role_place);
  }
  return name;
}

Json read_message(const Json& json, const std::string& place) {
  if (!json.is_object()) refuse_type(place, "an object", json);
  const RequestFields message(json);
  const std::string role = read_role(message, place);
  const Json* content = message.find("content");
  if (content == nullptr && role != "assistant") {
    throw ApiError(
        400, fmt::format("A message of role {} needs content.", role), place + ".content");
  }
  Json read = {{"role", role},
               {"content", content == nullptr ? "" : read_content(*content, place + ".content")}};
  if (const std::optional<std::string> reasoning = read_reasoning(message))
    read["reasoning"] = *reasoning;
  if (const std::optional<std::string> name = message.text("name")) read["name"] = *name;
  if (const std::optional<std::string> id = message.text("tool_call_id"))
    read["tool_call_id"] = *id;
  if (const Json* calls = message.find("tool_calls"); calls != nullptr && !calls->empty()) {
    const std::string calls_place = place + ".tool_calls";
    if (role != "assistant") {
      throw ApiError(400, "Only an assistant's message has tool_calls.", calls_place);
    }
    read["tool_calls"] = read_past_calls(*calls, calls_place);
  }
  return read;
}

}  // namespace

Json read_messages(const RequestFields& fields) {
  const Json* messages = fields.find("messages");
  if (messages == nullptr) throw ApiError(400, "Field required: messages.", "messages");
  if (!messages->is_array()) refuse_type("messages", "an array", *messages);
  if (messages->empty()) throw ApiError(400, "messages must not be empty.", "messages");
  if (messages->size() > size_t{kMaxMessages}) {
    throw ApiError(
        400,
        fmt::format(
            "messages has {} entries; at most {} are allowed.", messages->size(), kMaxMessages),
        "messages");
  }
  Json read = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    read.push_back(read_message((*messages)[i], fmt::format("messages[{}]", i)));
  }
  return read;
}

}  // namespace reprise::server
