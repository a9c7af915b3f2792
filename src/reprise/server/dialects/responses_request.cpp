#include "reprise/server/dialects/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/server/dialects/responses_answer.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

// Tools that OpenAI runs. Agents offer them in every request, whether the server has them or not.
constexpr auto kHostedTools = std::to_array<std::string_view>({"web_search",
                                                               "web_search_preview",
                                                               "file_search",
                                                               "code_interpreter",
                                                               "image_generation",
                                                               "computer_use_preview",
                                                               "local_shell",
                                                               "tool_search"});
// Fields that have the same name and meaning in a chat: fields of OpenAI, and of vLLM.
constexpr auto kSameInChat = std::to_array<std::string_view>({"model",
                                                              "temperature",
                                                              "top_p",
                                                              "parallel_tool_calls",
                                                              "top_k",
                                                              "min_p",
                                                              "seed",
                                                              "stop",
                                                              "ignore_eos",
                                                              "presence_penalty",
                                                              "min_tokens",
                                                              "frequency_penalty",
                                                              "priority",
                                                              "repetition_penalty",
                                                              "cache_salt",
                                                              "chat_template_kwargs",
                                                              "stop_token_ids",
                                                              "logit_bias",
                                                              "include_reasoning"});

/// The name of a tool in the chat, in which names have no namespaces. An empty namespace means
/// none.
std::string name_in_chat(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return fmt::format("{}{}{}", space, space.ends_with("__") ? "" : "__", name);
}

/// Reads items of the input into the messages of a chat. Here the reasoning, the text and each call
/// of one answer are separate items; in a chat they are one message.
class Items {
 public:
  Items(const RequestFields& fields, Json messages)
      : fields_(&fields), messages_(std::move(messages)) {}

  void add(const Json& json) {
    constexpr std::string_view kPlace = "input[]";
    if (!json.is_object()) refuse_type(kPlace, "an object", json);
    const RequestFields item = fields_->nested(kPlace, json);
    (void)item.find("id");
    (void)item.find("status");
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      add_message(item);
    } else if (type == "reasoning") {
      add_reasoning(item);
    } else if (type == "function_call") {
      add_call(item, required_text(item, "arguments", kPlace));
    } else if (type == "custom_tool_call") {
      add_call(item, Json{{"input", required_text(item, "input", kPlace)}}.dump());
    } else if (type == "function_call_output" || type == "custom_tool_call_output") {
      add_result(item);
    } else {
      refuse_unsupported("input",
                         fmt::format("An item of type `{}`", type.substr(0, 64)),
                         "Messages, reasoning, calls of functions and custom tools, and their "
                         "outputs are supported.");
    }
  }

  void add_text(std::string_view role, const std::string& text) {
    if (role == "system" && !messages_.empty() && messages_.back()["role"] == "system" &&
        messages_.back()["content"].is_string()) {
      // Chat templates support only one system message, so the texts are joined.
      messages_.back()["content"].get_ref<std::string&>() += "\n\n" + text;
      return;
    }
    messages_.push_back({{"role", role}, {"content", text}});
  }

  [[nodiscard]] Json take() { return std::move(messages_); }

 private:
  void add_message(const RequestFields& item) {
    std::string role = required_text(item, "role", "input[]");
    // Only templates of OpenAI's own models know this role, and they treat it like "system".
    if (role == "developer") role = "system";
    const Json* content = item.find("content");
    if (content == nullptr) throw ApiError(400, "A message of input needs content.", "input");
    std::string text = text_of(*content, "input[].content[]");
    if (role != "assistant") return add_text(role, text);
    Json& answer = open_answer(/*without=*/{"content", "tool_calls"});
    answer["content"] = std::move(text);
  }

  /// The content as text: it may be a text, or a list of parts.
  [[nodiscard]] std::string text_of(const Json& content,
                                    std::string_view place,
                                    bool is_result = false) const {
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) refuse_type("input", "content as a string or an array", content);
    std::string text;
    for (const Json& json : content) {
      if (!json.is_object()) refuse_type(place, "an object", json);
      const RequestFields part = fields_->nested(place, json);
      const std::string type = required_text(part, "type", place);
      if (!text.empty()) text += '\n';
      if (is_result && type == "input_image") {
        text += kImageLeftOut;
        continue;
      }
      const bool is_refusal = type == "refusal";
      if (!is_refusal && type != "input_text" && type != "output_text" && type != "text" &&
          type != "reasoning_text" && type != "summary_text") {
        refuse_unsupported(
            "input", fmt::format("Content of type `{}`", type.substr(0, 64)), "Text is.");
      }
      text += required_text(part, is_refusal ? "refusal" : "text", place);
      for (const char* of_answers : {"annotations", "logprobs"}) (void)part.find(of_answers);
    }
    return text;
  }

  void add_reasoning(const RequestFields& item) {
    const Json* content = item.find("content");
    const Json* summary = item.find("summary");
    std::string text;
    if (content != nullptr) text = text_of(*content, "input[].content[]");
    if (text.empty() && summary != nullptr) text = text_of(*summary, "input[].summary[]");
    if (text.empty()) return;  // encrypted_content, which only its author can read
    open_answer(/*without=*/{"reasoning", "content", "tool_calls"})["reasoning"] = std::move(text);
  }

  void add_call(const RequestFields& item, std::string arguments) {
    const std::string name =
        name_in_chat(item.text("namespace").value_or(""), required_text(item, "name", "input[]"));
    open_answer({})["tool_calls"].push_back(
        {{"id", required_text(item, "call_id", "input[]")},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
  }

  void add_result(const RequestFields& item) {
    const Json* output = item.find("output");
    if (output == nullptr) throw ApiError(400, "The output of a call needs output.", "input");
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", required_text(item, "call_id", "input[]")},
                         {"content", text_of(*output, "input[].output[]", /*is_result=*/true)}});
  }

  /// The assistant's message to which the next item belongs: the last message, if it has none of
  /// the members `without`; otherwise a new one.
  Json& open_answer(std::initializer_list<const char*> without) {
    const bool is_open = !messages_.empty() && messages_.back()["role"] == "assistant" &&
                         std::ranges::none_of(without, [&](const char* member) {
                           const Json& message = messages_.back();
                           return message.contains(member) && message[member] != "";
                         });
    if (!is_open) messages_.push_back({{"role", "assistant"}, {"content", ""}});
    return messages_.back();
  }

  const RequestFields* fields_;
  Json messages_;
};

/// Reads the tools of a request. Functions stay as they are. Custom tools become functions with one
/// text. Tools of a namespace get a name made from both names. Hosted tools are ignored.
class Tools {
 public:
  Tools(const RequestFields& fields, ResponsesShape& shape, std::vector<std::string>& unused)
      : fields_(&fields), shape_(&shape), unused_(&unused) {}

  void add(const Json& json) {
    if (!json.is_object()) refuse_type("tools[]", "an object", json);
    const std::string type = json.contains("type") && json["type"].is_string()
                                 ? json["type"].get<std::string>()
                                 : "function";
    if (std::ranges::find(kHostedTools, type) != kHostedTools.end()) {
      unused_->push_back("tools[]." + type);
      return;
    }
    const RequestFields tool = fields_->nested("tools[]", json);
    (void)tool.find("type");
    if (type == "function" || type == "custom") return add_function(tool, type == "custom", {}, "");
    if (type == "namespace") return add_namespace(tool);
    refuse_unsupported("tools",
                       fmt::format("A tool of type `{}`", type.substr(0, 64)),
                       "Functions, custom tools and namespaces of them are supported.");
  }

  [[nodiscard]] Json take() { return std::move(read_); }

 private:
  void add_namespace(const RequestFields& group) {
    const std::string name = required_text(group, "name", "tools[]");
    const std::string description = group.text("description").value_or("");
    const Json* tools = group.find("tools");
    if (tools == nullptr || !tools->is_array()) {
      refuse_type("tools[].tools", "an array", tools == nullptr ? Json() : *tools);
    }
    for (const Json& json : *tools) {
      if (!json.is_object()) refuse_type("tools[].tools[]", "an object", json);
      const RequestFields tool = fields_->nested("tools[].tools[]", json);
      const std::string type = tool.text("type").value_or("function");
      if (type != "function" && type != "custom") {
        refuse_unsupported("tools",
                           fmt::format("A tool of type `{}` in a namespace", type.substr(0, 64)),
                           "Functions and custom tools are supported.");
      }
      add_function(tool, type == "custom", name, description);
    }
  }

  void add_function(const RequestFields& tool,
                    bool is_custom,
                    const std::string& space,
                    std::string description) {
    const std::string own_name = required_text(tool, "name", "tools[]");
    const std::string name = name_in_chat(space, own_name);
    if (!space.empty()) shape_->spaces[name] = {space, own_name};
    Json function = {{"name", name}};
    if (const auto own = tool.text("description"); own && !own->empty()) {
      if (!description.empty()) description += "\n\n";
      description += *own;
    }
    if (is_custom) {
      shape_->custom_tools.insert(name);
      if (const Json* format = tool.find("format"); format != nullptr && format->is_object()) {
        const std::string grammar = format->value("definition", "");
        if (!grammar.empty()) description += "\n\nThe input follows this grammar:\n" + grammar;
      }
      function["parameters"] = {{"type", "object"},
                                {"properties", {{"input", {{"type", "string"}}}}},
                                {"required", {"input"}}};
    } else {
      if (const Json* parameters = tool.find("parameters")) function["parameters"] = *parameters;
      if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
    }
    if (!description.empty()) function["description"] = std::move(description);
    read_.push_back({{"type", "function"}, {"function", std::move(function)}});
  }

  const RequestFields* fields_;
  ResponsesShape* shape_;
  std::vector<std::string>* unused_;
  Json read_ = Json::array();
};

Json read_tools(const RequestFields& fields,
                const Json& tools,
                ResponsesShape& shape,
                std::vector<std::string>& unused) {
  if (!tools.is_array()) refuse_type("tools", "an array", tools);
  Tools read(fields, shape, unused);
  for (const Json& tool : tools) read.add(tool);
  return read.take();
}

Json read_tool_choice(const Json& choice) {
  if (choice.is_string()) return choice;
  if (!choice.is_object()) refuse_type("tool_choice", "a string or an object", choice);
  const Json type = choice.value("type", Json());
  const auto named = [](const Json& tool) {
    Json name = tool.value("name", Json());
    if (name.is_string() && tool.contains("namespace") && tool["namespace"].is_string()) {
      name = name_in_chat(tool["namespace"].get_ref<const std::string&>(),
                          name.get_ref<const std::string&>());
    }
    return Json{{"type", "function"}, {"function", {{"name", std::move(name)}}}};
  };
  if (type == "function" || type == "custom") return named(choice);
  if (type == "allowed_tools") {
    Json tools = Json::array();
    for (const Json& tool : choice.value("tools", Json::array())) {
      if (!tool.is_object()) refuse_type("tool_choice", "tools as objects", tool);
      tools.push_back(named(tool));
    }
    return {
        {"type", "allowed_tools"},
        {"allowed_tools", {{"mode", choice.value("mode", Json())}, {"tools", std::move(tools)}}}};
  }
  refuse_unsupported("tool_choice",
                     fmt::format("`tool_choice` of type {}", dump(type).substr(0, 64)),
                     "auto, none, required, function, custom and allowed_tools are supported.");
}

void read_text(const RequestFields& fields, const Json& json, Json& chat) {
  if (!json.is_object()) refuse_type("text", "an object", json);
  const RequestFields text = fields.nested("text", json);
  const Json* value = text.find("format");
  if (value == nullptr) return;
  if (!value->is_object()) refuse_type("text.format", "an object", *value);
  const RequestFields format = fields.nested("text.format", *value);
  const std::string type = required_text(format, "type", "text.format");
  if (type != "json_schema") {
    chat["response_format"] = {{"type", type}};
    return;
  }
  const Json* schema = format.find("schema");
  if (schema == nullptr) throw ApiError(400, "text.format needs a schema.", "text");
  Json inner = {{"schema", *schema}};
  for (const char* name : {"name", "description", "strict"}) {
    if (const Json* member = format.find(name)) inner[name] = *member;
  }
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(inner)}};
}

void read_reasoning(const RequestFields& fields, const Json& json, Json& chat) {
  if (!json.is_object()) refuse_type("reasoning", "an object", json);
  const RequestFields reasoning = fields.nested("reasoning", json);
  if (const auto effort = reasoning.text("effort")) chat["reasoning_effort"] = *effort;
}

/// Of all things that a request can include, this server has only log-probabilities.
void read_include(const RequestFields& fields, Json& chat, std::vector<std::string>& unused) {
  constexpr std::string_view kLogprobs = "message.output_text.logprobs";
  const std::optional<int> top = fields.int32("top_logprobs");
  const std::vector<std::string> included = fields.texts("include");
  const bool wants = std::ranges::find(included, kLogprobs) != included.end();
  if (std::ranges::any_of(included, [&](const std::string& one) { return one != kLogprobs; })) {
    unused.emplace_back("include");
  }
  if (!wants && !top) return;
  chat["logprobs"] = true;
  chat["top_logprobs"] = top.value_or(0);
}

Json read_messages(const RequestFields& fields, const ResponseStore& store, ResponsesShape& shape) {
  Json earlier = Json::array();
  if (const auto id = fields.text("previous_response_id")) {
    std::optional<Json> found = store.messages(*id);
    if (!found) {
      throw ApiError(404,
                     fmt::format("Previous response with id '{}' not found. This server keeps "
                                 "responses in memory only, and forgets the oldest ones.",
                                 id->substr(0, 64)),
                     "previous_response_id");
    }
    earlier = std::move(*found);
    shape.echo["previous_response_id"] = *id;
  }
  Items items(fields, std::move(earlier));
  const Json* input = fields.find("input");
  if (input == nullptr) throw ApiError(400, "Field required: input.", "input");
  if (input->is_string()) {
    items.add_text("user", input->get<std::string>());
  } else if (input->is_array()) {
    for (const Json& item : *input) items.add(item);
  } else {
    refuse_type("input", "a string or an array of items", *input);
  }
  return items.take();
}

void refuse_what_is_not_there(const RequestFields& fields) {
  if (fields.boolean("background").value_or(false)) {
    refuse_unsupported("background", {}, "Use `stream`.");
  }
  for (const char* name : {"conversation", "prompt"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && !asks_for_nothing(*value)) {
      refuse_unsupported(name, {}, "Use `previous_response_id`, or send all of `input`.");
    }
  }
}

/// Reads the fields that the answer repeats.
void read_echo(const RequestFields& fields, ResponsesShape& shape) {
  for (const char* name : {"instructions",
                           "max_output_tokens",
                           "metadata",
                           "temperature",
                           "text",
                           "tool_choice",
                           "tools",
                           "top_p",
                           "truncation",
                           "parallel_tool_calls",
                           "reasoning"}) {
    if (const Json* value = fields.find(name)) shape.echo[name] = *value;
  }
}

/// The instructions come before the conversation and are not stored with it.
Json with_instructions(const RequestFields& fields, const Json& messages) {
  const std::optional<std::string> instructions = fields.text("instructions");
  if (!instructions || instructions->empty()) return messages;
  Json all = Json::array({{{"role", "system"}, {"content", *instructions}}});
  for (const Json& message : messages) {
    const bool follows = all.size() == 1 && message["role"] == "system";
    if (follows) {
      all[0]["content"].get_ref<std::string&>() += "\n\n" + message["content"].get<std::string>();
    } else {
      all.push_back(message);
    }
  }
  return all;
}

constexpr FieldName kResponsesNames[] = {{"max_tokens", "max_output_tokens"},
                                         {"max_completion_tokens", "max_output_tokens"},
                                         {"messages", "input"},
                                         {"response_format", "text.format"},
                                         {"reasoning_effort", "reasoning.effort"},
                                         {"truncate_prompt_tokens", "truncation"}};

}  // namespace

TranslatedChat read_responses_request(const Json& body,
                                      const std::shared_ptr<ResponseStore>& store) {
  const RequestFields fields(body);
  refuse_what_is_not_there(fields);
  ResponsesShape shape;
  std::vector<std::string> unused;
  Json chat = Json::object();
  for (const std::string_view name : kSameInChat) {
    if (const Json* value = fields.find(name)) chat[std::string(name)] = *value;
  }
  shape.messages = read_messages(fields, *store, shape);
  chat["messages"] = with_instructions(fields, shape.messages);
  if (const Json* most = fields.find("max_output_tokens")) chat["max_completion_tokens"] = *most;
  if (const Json* tools = fields.find("tools")) {
    Json read = read_tools(fields, *tools, shape, unused);
    if (!read.empty()) chat["tools"] = std::move(read);
  }
  const Json* choice = fields.find("tool_choice");
  // A choice that forces a call is refused later if no tool is left to call.
  const bool forces = choice != nullptr && *choice != "auto" && *choice != "none";
  if (forces || (choice != nullptr && chat.contains("tools"))) {
    chat["tool_choice"] = read_tool_choice(*choice);
  }
  if (const Json* text = fields.find("text")) read_text(fields, *text, chat);
  if (const Json* reasoning = fields.find("reasoning")) read_reasoning(fields, *reasoning, chat);
  read_include(fields, chat, unused);
  if (fields.text("truncation").value_or("disabled") == "auto") chat["truncate_prompt_tokens"] = -1;
  read_echo(fields, shape);
  if (fields.boolean("store").value_or(true)) shape.store = store;
  shape.echo["store"] = shape.store != nullptr;
  chat["stream"] = fields.boolean("stream").value_or(false);
  for (std::string& name : fields.unused()) unused.push_back(std::move(name));
  return {.body = std::move(chat),
          .unused_fields = std::move(unused),
          .answer = make_responses_answer(std::move(shape)),
          .names = kResponsesNames};
}

}  // namespace reprise::server
