#include "reprise/server/openai/chat_messages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/tool_fields.h"

namespace reprise::server {
namespace {

constexpr size_t kMaxRoleBytes = 64;

/// The kinds of content parts that are text, and the member that has the text. Source: OpenAI's and
/// vLLM's APIs.
struct TextPart {
  std::string_view type;
  std::string_view member;
};
constexpr std::array kTextParts = {TextPart{"text", "text"},
                                   TextPart{"input_text", "text"},
                                   TextPart{"output_text", "text"},
                                   TextPart{"refusal", "refusal"}};

/// A content part in the form that templates take; nothing for a part whose text is null, which
/// clients send for an empty part.
std::optional<Json> read_part(const Json& json,
                              const RequestFields& fields,
                              const std::string& place) {
  if (json.is_string()) return Json{{"type", "text"}, {"text", json}};
  if (!json.is_object()) refuse_type(place, "a string or an object", json);
  const RequestFields part = fields.nested("messages[].content[]", json);
  const std::string type = part.text("type").value_or("");
  if (type == "thinking" || type == "reasoning") {
    std::optional<std::string> thought = part.text(type);
    if (!thought) thought = part.text("text");
    if (!thought)
      throw ApiError(400, fmt::format("A content part of type {} needs a text.", type), place);
    return Json{{"type", "thinking"}, {"thinking", *thought}};
  }
  const auto* const kind = std::find_if(kTextParts.begin(),
                                        kTextParts.end(),
                                        [&type](const TextPart& one) { return one.type == type; });
  if (kind == kTextParts.end()) {
    refuse_unsupported(
        place,
        fmt::format("Message content other than text ({} of type `{}`)",
                    place,
                    type.substr(0, kMaxRoleBytes)),
        "The types text, input_text, output_text, refusal, thinking and reasoning are supported.");
  }
  if (!json.contains(kind->member)) {
    throw ApiError(
        400, fmt::format("A content part of type {} needs a {}.", kind->type, kind->member), place);
  }
  const std::optional<std::string> text = part.text(kind->member);
  if (!text) return std::nullopt;
  return Json{{"type", "text"}, {"text", *text}};
}

/// Reads content as a string, or as a list of parts in the form of templates. `place`:
/// "messages[0].content".
Json read_content(const Json& content, const RequestFields& fields, const std::string& place) {
  if (content.is_string()) return content;
  if (!content.is_array()) refuse_type(place, "a string or an array of parts", content);
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    if (auto part = read_part(content[i], fields, fmt::format("{}[{}]", place, i))) {
      parts.push_back(std::move(*part));
    }
  }
  return parts;
}

/// The reasoning of an earlier answer, under any of the names that servers give it.
std::optional<std::string> read_reasoning(const RequestFields& message) {
  std::optional<std::string> first;
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    std::optional<std::string> reasoning = message.text(name);
    if (!first) first = std::move(reasoning);
  }
  return first;
}

/// Any name: the chat template decides which roles there are.
std::string read_role(const RequestFields& message, const std::string& place) {
  const std::string role_place = place + ".role";
  const Json* role = message.find("role");
  if (role == nullptr) throw ApiError(400, "Every message needs a role.", role_place);
  if (!role->is_string()) refuse_type(role_place, "a string", *role);
  std::string name = role->get<std::string>();
  if (name.empty() || name.size() > kMaxRoleBytes) {
    throw ApiError(
        400,
        fmt::format("{} has {} bytes, expected 1..{}.", role_place, name.size(), kMaxRoleBytes),
        role_place);
  }
  return name;
}

/// The calls in an assistant's message: tool_calls, or the single function_call of OpenAI's older
/// form.
Json read_calls(const RequestFields& message, const std::string& role, const std::string& place) {
  const Json* calls = message.find("tool_calls");
  const Json* call = message.find("function_call");
  if (calls != nullptr && calls->empty()) calls = nullptr;
  if (calls == nullptr && call == nullptr) return nullptr;
  const std::string calls_place = place + (calls != nullptr ? ".tool_calls" : ".function_call");
  if (role != "assistant") {
    throw ApiError(400, "Only an assistant's message has tool_calls.", calls_place);
  }
  if (calls != nullptr && call != nullptr) {
    throw ApiError(400, "A message has tool_calls or a function_call, not both.", calls_place);
  }
  return calls != nullptr ? read_past_calls(*calls, calls_place)
                          : read_past_calls(Json::array({{{"function", *call}}}), calls_place);
}

/// The content of a message. For a refusal of the assistant, its text.
Json read_said(const RequestFields& message,
               const RequestFields& fields,
               const std::string& role,
               const std::string& place) {
  if (const Json* content = message.find("content")) {
    return read_content(*content, fields, place + ".content");
  }
  if (role == "assistant") return message.text("refusal").value_or("");
  if (role == "tool" || role == "function") return "";  // a tool that returned nothing
  throw ApiError(400, fmt::format("A message of role {} needs content.", role), place + ".content");
}

Json read_message(const Json& json, const RequestFields& fields, const std::string& place) {
  if (!json.is_object()) refuse_type(place, "an object", json);
  const RequestFields message = fields.nested("messages[]", json);
  const std::string role = read_role(message, place);
  if (message.find("audio") != nullptr) refuse_unsupported(place + ".audio");
  Json read = {{"role", role}, {"content", read_said(message, fields, role, place)}};
  if (const std::optional<std::string> reasoning = read_reasoning(message))
    read["reasoning"] = *reasoning;
  if (const std::optional<std::string> name = message.text("name")) read["name"] = *name;
  if (const std::optional<std::string> id = message.text("tool_call_id"))
    read["tool_call_id"] = *id;
  if (Json calls = read_calls(message, role, place); !calls.is_null()) {
    read["tool_calls"] = std::move(calls);
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
    read.push_back(read_message((*messages)[i], fields, fmt::format("messages[{}]", i)));
  }
  return read;
}

}  // namespace reprise::server
