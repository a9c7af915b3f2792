#include "reprise/server/dialects/anthropic_request.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/server/dialects/anthropic_answer.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

/// Claude Code writes this line, which differs in every request, in front of its instructions. It
/// is for the provider's accounts and not for the model, and it would keep every prompt from the
/// prefix cache. Source: claude-code issue 68900.
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

[[noreturn]] void refuse_block(std::string_view place, std::string_view type) {
  refuse_unsupported(
      place,
      fmt::format("Content of type `{}` ({})", type.substr(0, 64), place),
      "The types text, thinking, redacted_thinking, tool_use and tool_result are supported.");
}

/// Changes to the tools of the request that its messages make.
struct ToolChanges {
  // Tools of the request's list that the model sees although they have defer_loading.
  std::set<std::string> shown;
  std::set<std::string> removed;   // and not added again
  std::vector<const Json*> added;  // definitions, as in the request's list; parts of the body
};

/// Reads the messages of a conversation into those of a chat.
class Conversation {
 public:
  explicit Conversation(const RequestFields& fields) : fields_(&fields) {}

  void add_system(const Json& system) {
    Json parts = Json::array();
    if (system.is_string()) {
      parts.push_back({{"type", "text"}, {"text", system}});
    } else if (system.is_array()) {
      for (const Json& block : system) {
        if (!block.is_object()) refuse_type("system[]", "an object", block);
        const RequestFields part = fields_->nested("system[]", block);
        const std::string type = required_text(part, "type", "system[]");
        if (type != "text") refuse_block("system[]", type);
        parts.push_back({{"type", "text"}, {"text", required_text(part, "text", "system[]")}});
      }
    } else {
      refuse_type("system", "a string or an array of blocks", system);
    }
    Json kept = Json::array();
    for (Json& part : parts) {
      auto& text = part["text"].get_ref<std::string&>();
      if (text.starts_with(kBillingLine)) {
        has_billing_line_ = true;
        const size_t end = text.find('\n');
        text = end == std::string::npos ? "" : text.substr(end + 1);
      }
      if (!text.empty()) kept.push_back(std::move(part));
    }
    if (!kept.empty()) add("system", std::move(kept));
  }

  void add_message(const Json& json) {
    if (!json.is_object()) refuse_type("messages[]", "an object", json);
    const RequestFields message = fields_->nested("messages[]", json);
    const std::string role = required_text(message, "role", "messages[]");
    const Json* content = message.find("content");
    if (content == nullptr) throw ApiError(400, "Every message needs content.", "messages");
    if (content->is_string()) return add(role, *content);
    if (!content->is_array()) {
      refuse_type("messages[].content", "a string or an array of blocks", *content);
    }
    if (role == "assistant") {
      add_answer(*content);
    } else {
      add_blocks(role, *content);
    }
  }

  [[nodiscard]] Json take() { return std::move(messages_); }
  [[nodiscard]] const ToolChanges& tool_changes() const noexcept { return changes_; }
  [[nodiscard]] bool has_billing_line() const noexcept { return has_billing_line_; }

 private:
  static constexpr std::string_view kBlock = "messages[].content[]";

  void add(std::string_view role, Json content) {
    messages_.push_back({{"role", role}, {"content", std::move(content)}});
  }

  [[nodiscard]] RequestFields block_of(const Json& json) const {
    if (!json.is_object()) refuse_type(kBlock, "an object", json);
    return fields_->nested(kBlock, json);
  }

  /// In a chat, results of tools are separate messages, in the same order.
  void add_blocks(std::string_view role, const Json& blocks) {
    Json said = Json::array();
    const auto say = [&] {
      if (!said.empty()) add(role, std::exchange(said, Json::array()));
    };
    for (const Json& json : blocks) {
      const RequestFields block = block_of(json);
      const std::string type = required_text(block, "type", kBlock);
      if (type == "text") {
        said.push_back({{"type", "text"}, {"text", required_text(block, "text", kBlock)}});
      } else if (type == "tool_result") {
        say();
        add("tool", result_of(block));
        messages_.back()["tool_call_id"] = required_text(block, "tool_use_id", kBlock);
      } else if (role == "system" && (type == "tool_addition" || type == "tool_removal")) {
        change_tools(block, type == "tool_addition");
      } else {
        refuse_block(kBlock, type);
      }
    }
    say();
  }

  /// The result of a tool: nothing, text, or blocks of text.
  [[nodiscard]] Json result_of(const RequestFields& block) {
    const Json* content = block.find("content");
    if (content == nullptr) return "";
    if (content->is_string()) return *content;
    if (!content->is_array()) {
      refuse_type("messages[].content[].content", "a string or an array of blocks", *content);
    }
    constexpr std::string_view kResult = "messages[].content[].content[]";
    Json parts = Json::array();
    for (const Json& json : *content) {
      if (!json.is_object()) refuse_type(kResult, "an object", json);
      const RequestFields part = fields_->nested(kResult, json);
      const std::string type = required_text(part, "type", kResult);
      std::string text;
      if (type == "text") {
        text = required_text(part, "text", kResult);
      } else if (type == "tool_reference") {
        text = required_text(part, "tool_name", kResult);
        changes_.shown.insert(text);
      } else if (type == "image") {
        text = kImageLeftOut;
      } else {
        refuse_block(kResult, type);
      }
      parts.push_back({{"type", "text"}, {"text", std::move(text)}});
    }
    return parts;
  }

  void change_tools(const RequestFields& block, bool adds) {
    constexpr std::string_view kTool = "messages[].content[].tool";
    const Json* json = block.find("tool");
    if (json == nullptr || !json->is_object()) {
      refuse_type(kTool, "an object", json == nullptr ? Json() : *json);
    }
    const RequestFields tool = fields_->nested(kTool, *json);
    const std::string type = required_text(tool, "type", kTool);
    const Json* definition = tool.find("definition");
    if (adds && type == "tool_definition" && definition != nullptr && definition->is_object()) {
      if (const auto name = definition->find("name");
          name != definition->end() && name->is_string())
        changes_.removed.erase(name->get<std::string>());
      changes_.added.push_back(definition);
      return;
    }
    if (type != "tool_reference") {
      throw ApiError(400,
                     "The tool of a tool_addition must be a tool_definition or a tool_reference, "
                     "that of a tool_removal a tool_reference.",
                     std::string(kTool));
    }
    std::string name = required_text(tool, "name", kTool);
    (adds ? changes_.removed : changes_.shown).erase(name);
    (adds ? changes_.shown : changes_.removed).insert(std::move(name));
  }

  void add_answer(const Json& blocks) {
    Json message = {{"role", "assistant"}, {"content", Json::array()}};
    std::string reasoning;
    for (const Json& json : blocks) {
      const RequestFields block = block_of(json);
      const std::string type = required_text(block, "type", kBlock);
      if (type == "text") {
        message["content"].push_back(
            {{"type", "text"}, {"text", required_text(block, "text", kBlock)}});
      } else if (type == "thinking") {
        reasoning += required_text(block, "thinking", kBlock);
        (void)block.find("signature");  // that of our own answers is empty
      } else if (type == "tool_use") {
        const Json* input = block.find("input");
        message["tool_calls"].push_back(
            {{"id", required_text(block, "id", kBlock)},
             {"type", "function"},
             {"function",
              {{"name", required_text(block, "name", kBlock)},
               {"arguments", input == nullptr ? "{}" : input->dump()}}}});
      } else if (type != "redacted_thinking") {  // only its provider can read it
        refuse_block(kBlock, type);
      }
    }
    if (!reasoning.empty()) message["reasoning"] = std::move(reasoning);
    if (message["content"].empty()) message["content"] = "";
    messages_.push_back(std::move(message));
  }

  const RequestFields* fields_;
  Json messages_ = Json::array();
  ToolChanges changes_;
  bool has_billing_line_ = false;
};

/// The tools that the model is told of: those of the request's list without defer_loading, with the
/// changes that the conversation made.
Json read_client_tools(const RequestFields& fields, const Json* tools, const ToolChanges& changes) {
  if (tools != nullptr && !tools->is_array()) refuse_type("tools", "an array", *tools);
  std::vector<const Json*> all;
  if (tools != nullptr) {
    for (const Json& tool : *tools) all.push_back(&tool);
  }
  all.insert(all.end(), changes.added.begin(), changes.added.end());
  Json read = Json::array();
  for (const Json* json : all) {
    if (!json->is_object()) refuse_type("tools[]", "an object", *json);
    const RequestFields tool = fields.nested("tools[]", *json);
    const std::string name = required_text(tool, "name", "tools[]");
    const bool waits =
        tool.boolean("defer_loading").value_or(false) && !changes.shown.contains(name);
    if (const auto type = tool.text("type"); type && *type != "custom") {
      refuse_unsupported(
          "tools",
          fmt::format("A tool of type `{}`", type->substr(0, 64)),
          "The provider of that API runs it; tools with an input_schema are supported.");
    }
    Json function = {{"name", name}};
    if (const auto description = tool.text("description")) function["description"] = *description;
    if (const Json* schema = tool.find("input_schema")) function["parameters"] = *schema;
    if (const auto strict = tool.boolean("strict")) function["strict"] = *strict;
    if (waits || changes.removed.contains(name)) continue;
    read.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return read;
}

void read_choice_of_tool(const RequestFields& fields, const Json& json, Json& chat) {
  if (!json.is_object()) refuse_type("tool_choice", "an object", json);
  const RequestFields choice = fields.nested("tool_choice", json);
  const std::string type = required_text(choice, "type", "tool_choice");
  if (type == "auto" || type == "none") {
    chat["tool_choice"] = type;
  } else if (type == "any") {
    chat["tool_choice"] = "required";
  } else if (type == "tool") {
    chat["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", required_text(choice, "name", "tool_choice")}}}};
  } else {
    throw ApiError(400, "tool_choice.type must be auto, any, tool or none.", "tool_choice");
  }
  if (choice.boolean("disable_parallel_tool_use").value_or(false)) {
    chat["parallel_tool_calls"] = false;
  }
}

/// Whether the model should think, for templates that have a switch for it.
void read_thinking(const RequestFields& fields, const Json& json, Json& chat) {
  if (!json.is_object()) refuse_type("thinking", "an object", json);
  const RequestFields thinking = fields.nested("thinking", json);
  const std::string type = required_text(thinking, "type", "thinking");
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    throw ApiError(400, "thinking.type must be enabled, disabled or adaptive.", "thinking");
  }
  chat["chat_template_kwargs"] = {{"enable_thinking", type != "disabled"},
                                  {"thinking", type != "disabled"}};
}

/// The form of the answer: output_config.format, or output_format of the older beta.
void read_output_format(const RequestFields& fields,
                        std::string_view path,
                        const Json& json,
                        Json& chat) {
  if (!json.is_object()) refuse_type(path, "an object", json);
  const RequestFields format = fields.nested(path, json);
  const std::string type = required_text(format, "type", path);
  const Json* schema = format.find("schema");
  if (type != "json_schema" || schema == nullptr) {
    throw ApiError(400,
                   fmt::format("{} must be of type json_schema and have a schema.", path),
                   std::string(path));
  }
  chat["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
}

void read_output_config(const RequestFields& fields, const Json& json, Json& chat) {
  if (!json.is_object()) refuse_type("output_config", "an object", json);
  const RequestFields config = fields.nested("output_config", json);
  if (const auto effort = config.text("effort")) chat["reasoning_effort"] = *effort;
  if (const Json* format = config.find("format")) {
    read_output_format(fields, "output_config.format", *format, chat);
  }
}

constexpr FieldName kAnthropicNames[] = {{"stop", "stop_sequences"},
                                         {"response_format", "output_config.format"},
                                         {"reasoning_effort", "output_config.effort"},
                                         {"chat_template_kwargs", "thinking"}};

void copy_field(const RequestFields& fields, std::string_view from, const char* to, Json& chat) {
  if (const Json* value = fields.find(from)) chat[to] = *value;
}

/// Reads the parts of the prompt: messages, tools and their settings.
Json read_prompt(const RequestFields& fields, bool& has_billing_line) {
  Json chat = Json::object();
  copy_field(fields, "model", "model", chat);
  Conversation conversation(fields);
  if (const Json* system = fields.find("system")) conversation.add_system(*system);
  const Json* messages = fields.find("messages");
  if (messages == nullptr) throw ApiError(400, "Field required: messages.", "messages");
  if (!messages->is_array()) refuse_type("messages", "an array", *messages);
  for (const Json& message : *messages) conversation.add_message(message);
  has_billing_line = conversation.has_billing_line();
  chat["messages"] = conversation.take();
  Json tools = read_client_tools(fields, fields.find("tools"), conversation.tool_changes());
  if (!tools.empty()) chat["tools"] = std::move(tools);
  if (const Json* choice = fields.find("tool_choice")) read_choice_of_tool(fields, *choice, chat);
  if (const Json* thinking = fields.find("thinking")) read_thinking(fields, *thinking, chat);
  if (const Json* config = fields.find("output_config")) read_output_config(fields, *config, chat);
  if (const Json* format = fields.find("output_format")) {
    read_output_format(fields, "output_format", *format, chat);
  }
  const Json* servers = fields.find("mcp_servers");
  if (servers != nullptr && !asks_for_nothing(*servers)) {
    refuse_unsupported("mcp_servers", {}, "The server does not access the network.");
  }
  return chat;
}

std::vector<std::string> unused_with_line(const RequestFields& fields, bool has_billing_line) {
  std::vector<std::string> names = fields.unused();
  if (has_billing_line) names.emplace_back("system[].x-anthropic-billing-header");
  return names;
}

}  // namespace

TranslatedChat read_anthropic_request(const Json& body) {
  const RequestFields fields(body);
  bool has_billing_line = false;
  Json chat = read_prompt(fields, has_billing_line);
  if (fields.find("max_tokens") == nullptr) {
    throw ApiError(400, "Field required: max_tokens.", "max_tokens");
  }
  copy_field(fields, "max_tokens", "max_tokens", chat);
  copy_field(fields, "temperature", "temperature", chat);
  copy_field(fields, "top_p", "top_p", chat);
  copy_field(fields, "top_k", "top_k", chat);
  copy_field(fields, "stop_sequences", "stop", chat);
  chat["stream"] = fields.boolean("stream").value_or(false);
  return {.body = std::move(chat),
          .unused_fields = unused_with_line(fields, has_billing_line),
          .answer = make_anthropic_answer(),
          .names = kAnthropicNames};
}

TranslatedChat read_anthropic_count_request(const Json& body) {
  const RequestFields fields(body);
  bool has_billing_line = false;
  Json chat = read_prompt(fields, has_billing_line);
  return {.body = std::move(chat),
          .unused_fields = unused_with_line(fields, has_billing_line),
          .answer = nullptr};
}

}  // namespace reprise::server
