#include "reprise/server/dialects/ollama_request.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

constexpr std::string_view kOptionsPath = "options.";
constexpr FieldName kOllamaNames[] = {{"temperature", "options.temperature"},
                                      {"top_p", "options.top_p"},
                                      {"top_k", "options.top_k"},
                                      {"min_p", "options.min_p"},
                                      {"seed", "options.seed"},
                                      {"stop", "options.stop"},
                                      {"repetition_penalty", "options.repeat_penalty"},
                                      {"presence_penalty", "options.presence_penalty"},
                                      {"frequency_penalty", "options.frequency_penalty"},
                                      {"max_tokens", "options.num_predict"},
                                      {"response_format", "format"},
                                      {"reasoning_effort", "think"},
                                      {"chat_template_kwargs", "think"}};
// The members of "options" that a chat has too, without num_predict. The others configure ollama's
// runner, which it loads for each model; this server has no such runner.
constexpr std::span kOptions = std::span(kOllamaNames).first<9>();

void read_options(const RequestFields& fields, Json& chat) {
  const Json* json = fields.find("options");
  if (json == nullptr) return;
  if (!json->is_object()) refuse_type("options", "an object", *json);
  const RequestFields options = fields.nested("options", *json);
  for (const FieldName& option : kOptions) {
    const std::string_view name = option.in_request.substr(kOptionsPath.size());
    if (const Json* value = options.find(name)) chat[std::string(option.in_made)] = *value;
  }
  // -1 and -2 mean: until the context is full.
  const std::optional<int> most = options.int32("num_predict");
  if (most && *most >= 0) chat["max_tokens"] = *most;
}

void read_format(const RequestFields& fields, Json& chat) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (*format == "json") {
    chat["response_format"] = {{"type", "json_object"}};
  } else if (format->is_object()) {
    chat["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "answer"}, {"schema", *format}}}};
  } else {
    throw ApiError(400, "format must be \"json\" or a JSON schema.", "format");
  }
}

/// Whether and how hard the model should think, for templates that have a switch for it.
void read_think(const RequestFields& fields, Json& chat) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_string()) {
    chat["reasoning_effort"] = *think;
  } else {
    const bool thinks = fields.boolean("think").value_or(true);
    chat["chat_template_kwargs"] = {{"enable_thinking", thinks}, {"thinking", thinks}};
  }
}

/// The fields that chats and single prompts share.
Json read_shared(const RequestFields& fields) {
  Json chat = Json::object();
  read_options(fields, chat);
  read_format(fields, chat);
  chat["stream"] = fields.boolean("stream").value_or(true);
  return chat;
}

void refuse_images(const RequestFields& fields, std::string_view place) {
  const Json* images = fields.find("images");
  if (images != nullptr && !asks_for_nothing(*images)) {
    refuse_unsupported(place, {}, "Messages are text.");
  }
}

Json read_message(const RequestFields& fields, const Json& json) {
  if (!json.is_object()) refuse_type("messages[]", "an object", json);
  const RequestFields message = fields.nested("messages[]", json);
  refuse_images(message, "messages[].images");
  Json read = {{"role", message.text("role").value_or("")},
               {"content", message.text("content").value_or("")}};
  if (const auto thinking = message.text("thinking")) read["reasoning"] = *thinking;
  for (const char* name : {"tool_name", "name"}) {
    if (const auto text = message.text(name)) read["name"] = *text;
  }
  if (const auto id = message.text("tool_call_id")) read["tool_call_id"] = *id;
  const Json* calls = message.find("tool_calls");
  if (calls != nullptr && !asks_for_nothing(*calls)) read["tool_calls"] = *calls;
  return read;
}

}  // namespace

std::string ollama_model(const RequestFields& fields) {
  std::optional<std::string> name = fields.text("model");
  if (!name) name = fields.text("name");
  if (!name) throw ApiError(400, "Field required: model.", "model");
  constexpr std::string_view kTag = ":latest";
  if (name->ends_with(kTag)) name->resize(name->size() - kTag.size());
  return *name;
}

bool asks_ollama_to_load(const RequestFields& fields, OllamaForm form) {
  if (form == OllamaForm::chat) {
    const Json* messages = fields.find("messages");
    return messages != nullptr && messages->is_array() && messages->empty();
  }
  if (!fields.text("prompt").value_or("").empty()) return false;
  // A body with a gap or an image but no prompt asks for more than the model.
  const auto is_absent = [&fields](const char* name) {
    const Json* value = fields.find(name);
    return value == nullptr || asks_for_nothing(*value);
  };
  return is_absent("suffix") && is_absent("images");
}

TranslatedChat read_ollama_chat(const Json& body) {
  const RequestFields fields(body);
  Json chat = read_shared(fields);
  read_think(fields, chat);
  chat["model"] = ollama_model(fields);
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array()) {
    throw ApiError(400, "messages must be an array.", "messages");
  }
  for (const Json& message : *messages) chat["messages"].push_back(read_message(fields, message));
  const Json* tools = fields.find("tools");
  if (tools != nullptr && !asks_for_nothing(*tools)) chat["tools"] = *tools;
  return {.body = std::move(chat),
          .unused_fields = fields.unused(),
          .answer = make_ollama_answer(OllamaForm::chat),
          .names = kOllamaNames};
}

TranslatedChat read_ollama_generate(const Json& body) {
  const RequestFields fields(body);
  Json chat = read_shared(fields);
  chat["model"] = ollama_model(fields);
  refuse_images(fields, "images");
  for (const char* name : {"suffix", "template", "context"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && !asks_for_nothing(*value)) {
      refuse_unsupported(name, {}, "Use /api/chat, or /v1/completions for a text as it is.");
    }
  }
  const std::string prompt = fields.text("prompt").value_or("");
  const std::string system = fields.text("system").value_or("");
  const bool is_raw = fields.boolean("raw").value_or(false);
  if (is_raw) {
    if (!system.empty()) refuse_unsupported("system", {}, "A raw prompt has no template for it.");
    chat["prompt"] = prompt;
  } else {
    read_think(fields, chat);
    if (!system.empty()) chat["messages"].push_back({{"role", "system"}, {"content", system}});
    chat["messages"].push_back({{"role", "user"}, {"content", prompt}});
  }
  return {.body = std::move(chat),
          .unused_fields = fields.unused(),
          .answer = make_ollama_answer(OllamaForm::generate),
          .is_text = is_raw,
          .names = kOllamaNames};
}

Json read_ollama_vectors(const RequestFields& fields, OllamaVectors form) {
  const bool is_old = form == OllamaVectors::embeddings;
  const std::string name = is_old ? "prompt" : "input";
  const Json* texts = is_old ? fields.find("prompt") : fields.find("input");
  const bool is_list = texts != nullptr && texts->is_array() && !is_old;
  if (texts == nullptr || (!texts->is_string() && !is_list)) {
    const char* const expected = is_old ? "a text" : "a text or a list of texts";
    throw ApiError(400, fmt::format("{} must be {}.", name, expected), name);
  }
  Json body = {{"model", ollama_model(fields)}, {"input", *texts}};
  if (is_old) body["normalize"] = false;
  // Texts that are too long are cut, unless the request forbids it.
  if (is_old || fields.boolean("truncate").value_or(true)) body["truncate_prompt_tokens"] = -1;
  const Json* length = fields.find("dimensions");
  if (length != nullptr && *length != 0) body["dimensions"] = *length;
  return body;
}

}  // namespace reprise::server
