#include "reprise/api/text/template_messages.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/api/text/system_messages.h"
#include "reprise/base/error.h"
#include "reprise/base/json_budget.h"

namespace reprise::api {
namespace {

/// Limits of the values in the arguments of all calls of a conversation together. A short text can
/// hold very many values, and a template makes a larger value of each.
constexpr size_t kMaxArgumentValues = 200'000;

/// One part of a content: its text, or its thoughts.
struct Part {
  bool is_thought = false;
  Json value;  // as templates take it: {"type": ..., "text" or "thinking": ...}

  [[nodiscard]] const std::string& text() const {
    return value[is_thought ? "thinking" : "text"].get_ref<const std::string&>();
  }
};

const Json* text_member(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? &*found : nullptr;
}

Part text_part(const Json& text) { return {.value = {{"type", "text"}, {"text", text}}}; }
Part thought_part(const Json& text) {
  return {.is_thought = true, .value = {{"type", "thinking"}, {"thinking", text}}};
}

Part read_part(const Json& json, const std::string& place) {
  if (json.is_string()) return text_part(json);
  const Json* type = json.is_object() ? text_member(json, "type") : nullptr;
  if (type != nullptr && (*type == "thinking" || *type == "reasoning")) {
    const Json* text = text_member(json, type->get_ref<const std::string&>().c_str());
    if (text == nullptr) text = text_member(json, "text");
    if (text != nullptr) return thought_part(*text);
  } else if (type != nullptr && (*type == "text" || *type == "input_text" ||
                                 *type == "output_text" || *type == "refusal")) {
    const Json* text = text_member(json, *type == "refusal" ? "refusal" : "text");
    if (text != nullptr) return text_part(*text);
  }
  throw InvalidArgument(fmt::format(
      "{}: expected a part of type text, input_text, output_text, refusal, thinking or reasoning, "
      "with its text",
      place));
}

std::vector<Part> read_parts(const Json& content, const std::string& place) {
  std::vector<Part> parts;
  if (content.is_string()) {
    parts.push_back(text_part(content));
  } else if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i)
      parts.push_back(read_part(content[i], fmt::format("{}[{}]", place, i)));
  } else if (!content.is_null()) {
    throw InvalidArgument(fmt::format("{}: expected a string or an array of parts", place));
  }
  return parts;
}

std::string joined(const std::vector<Part>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += '\n';
    text += parts[i].text();
  }
  return text;
}

Json as_list(std::vector<Part> parts) {
  Json list = Json::array();
  for (Part& part : parts) list.push_back(std::move(part.value));
  return list;
}

/// The first of the members that clients send reasoning in, in vLLM's order.
std::optional<std::string> reasoning_member(const Json& message, const std::string& place) {
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    if (!found->is_string())
      throw InvalidArgument(fmt::format("{}.{}: expected a string", place, name));
    return found->get<std::string>();
  }
  return std::nullopt;
}

/// Takes the thoughts out of `parts`, and adds them to the reasoning that the message has.
void move_thoughts(std::vector<Part>& parts, std::optional<std::string>& reasoning) {
  std::vector<Part> thoughts;
  std::vector<Part> rest;
  for (Part& part : parts) (part.is_thought ? thoughts : rest).push_back(std::move(part));
  parts = std::move(rest);
  if (thoughts.empty()) return;
  std::string text = joined(thoughts);
  // Some clients send the same thoughts in both places.
  if (reasoning && *reasoning != text) text = *reasoning + "\n" + text;
  reasoning = std::move(text);
}

void thoughts_to_text(std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (part.is_thought) part = text_part(part.value["thinking"]);
  }
}

/// Whether the template gets the content as a list.
bool wants_list(const Json& message,
                const std::vector<Part>& parts,
                const TemplateForm& form,
                ContentFormat format) {
  const auto& role = message["role"].get_ref<const std::string&>();
  const ContentForm& takes = form.content_of(role);
  // In vLLM, tools answer in text, whatever the format is.
  if (role == "tool") return !takes.takes_text;
  if (format != ContentFormat::automatic) return format == ContentFormat::openai;
  for (const Part& part : parts) {
    if (part.is_thought) return true;
  }
  return !takes.takes_text || (takes.takes_parts && message["content"].is_array());
}

/// The arguments of one call. If the template takes text, a text that is not a JSON object stays as
/// it is: an earlier answer may have been cut, and the conversation must be able to continue. For
/// other templates such a text becomes an empty object, as in vLLM.
Json arguments_for(const Json& arguments, const TemplateForm& form, JsonBudget& budget) {
  Json object = Json::object();
  if (arguments.is_object()) {
    object = arguments;
  } else if (arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    if (!form.takes_object_arguments) return text.empty() ? Json("{}") : arguments;
    try {
      if (!text.empty()) object = parse_json(text, "arguments", {}, budget);
    } catch (const InvalidArgument&) {
      if (budget.is_exceeded()) throw;
      object = nullptr;
    }
    if (!object.is_object()) return form.takes_text_arguments ? arguments : Json(Json::object());
  }
  return form.takes_object_arguments ? object : Json(object.dump());
}

void convert_calls(Json& message,
                   const TemplateForm& form,
                   const std::string& place,
                   JsonBudget& budget) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return;
  }
  if (!calls->is_array())
    throw InvalidArgument(fmt::format("{}.tool_calls: expected an array", place));
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
      throw InvalidArgument(
          fmt::format("{}.tool_calls: every entry needs a function with a name", place));
    }
    Json& function = call["function"];
    function["arguments"] = arguments_for(
        function.contains("arguments") ? function["arguments"] : Json(), form, budget);
  }
}

void convert(Json& message,
             const TemplateForm& form,
             ContentFormat format,
             const std::string& place,
             JsonBudget& budget) {
  if (!message.is_object() || text_member(message, "role") == nullptr)
    throw InvalidArgument(fmt::format("{}: expected an object with a role", place));
  const bool is_answer = message["role"] == "assistant";
  if (is_answer) convert_calls(message, form, place, budget);
  std::optional<std::string> reasoning = reasoning_member(message, place);
  for (const char* name : {"reasoning", "reasoning_content", "thinking"}) message.erase(name);
  if (!message.contains("content")) message["content"] = nullptr;
  std::vector<Part> parts;
  // If the content stays a text, do not copy it.
  const bool stays = message["content"].is_string() && !wants_list(message, {}, form, format);
  if (!stays) parts = read_parts(message["content"], place + ".content");
  if (is_answer && form.takes_thinking_parts && format != ContentFormat::string) {
    // A template that takes thoughts as parts of the content reads no other member for them.
    if (reasoning && !form.takes_reasoning) {
      if (stays) parts.push_back(text_part(message["content"]));
      parts.insert(parts.begin(), thought_part(*std::exchange(reasoning, std::nullopt)));
    }
  } else if (is_answer && form.takes_reasoning) {
    move_thoughts(parts, reasoning);
  } else {
    thoughts_to_text(parts);
  }
  if (reasoning) message["reasoning"] = message["reasoning_content"] = *reasoning;
  if (!stays || !parts.empty()) {
    if (!wants_list(message, parts, form, format)) {
      message["content"] = joined(parts);
      return;
    }
    const ContentForm& takes = form.content_of(message["role"].get_ref<const std::string&>());
    if (takes.takes_one_part) parts = {text_part(Json(joined(parts)))};
    message["content"] = as_list(std::move(parts));
  }
}

}  // namespace

ContentFormat parse_content_format(std::string_view option, std::string_view text) {
  if (text == "auto") return ContentFormat::automatic;
  if (text == "string") return ContentFormat::string;
  if (text == "openai") return ContentFormat::openai;
  throw InvalidArgument(fmt::format("{}: '{}' is not one of auto, string, openai", option, text));
}

Json messages_for_template(Json messages, const TemplateForm& form, ContentFormat format) {
  if (!messages.is_array()) throw InvalidArgument("messages: expected an array of objects");
  JsonBudget budget{.max_parts = kMaxArgumentValues, .max_numbers = kMaxArgumentValues};
  for (size_t i = 0; i < messages.size(); ++i)
    convert(messages[i], form, format, fmt::format("messages[{}]", i), budget);
  return with_shown_system_messages(std::move(messages), form);
}

}  // namespace reprise::api
