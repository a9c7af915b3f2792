#include "reprise/server/openai/chat_template_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/chat_messages.h"

namespace reprise::server {
namespace {

// These names are parameters of apply_chat_template(), or values that the server or other fields of
// the request set, so a request may not set them as template variables.
constexpr std::array kForbiddenVariables = {
    "add_generation_prompt",
    "bos_token",
    "chat_template",
    "continue_final_message",
    "conversation",
    "documents",
    "eos_token",
    "max_length",
    "messages",
    "padding",
    "return_tensors",
    "tokenize",
    "tools",
    "truncation",
};

// Templates read only a few switches. More variables would only cost time.
constexpr size_t kMaxVariables = 64;
constexpr size_t kMaxVariableBytes = size_t{64} << 10;

void check_size(const Json& kwargs) {
  if (kwargs.size() > kMaxVariables) {
    throw ApiError(400,
                   fmt::format("chat_template_kwargs has {} members; at most {} are allowed.",
                               kwargs.size(),
                               kMaxVariables),
                   "chat_template_kwargs");
  }
  const size_t num_bytes = dump(kwargs).size();
  if (num_bytes > kMaxVariableBytes) {
    throw ApiError(400,
                   fmt::format("chat_template_kwargs has {} bytes; at most {} are allowed.",
                               num_bytes,
                               kMaxVariableBytes),
                   "chat_template_kwargs");
  }
}

Json read_kwargs(const RequestFields& fields, const Json& defaults) {
  const Json* kwargs = fields.find("chat_template_kwargs");
  if (kwargs == nullptr) return defaults;
  if (!kwargs->is_object()) refuse_type("chat_template_kwargs", "an object", *kwargs);
  check_size(*kwargs);
  for (const auto& [name, value] : kwargs->items()) {
    if (std::find(kForbiddenVariables.begin(), kForbiddenVariables.end(), name) !=
        kForbiddenVariables.end()) {
      throw ApiError(400,
                     fmt::format("chat_template_kwargs must not set `{}`.", name),
                     "chat_template_kwargs");
    }
  }
  Json all = defaults;
  all.update(*kwargs);
  return all;
}

// Like vLLM, the server passes reasoning_effort to the template as a variable of the same name. The
// field has precedence over a member of chat_template_kwargs. The template decides what the value
// means.
Json with_reasoning_effort(const RequestFields& fields, Json variables) {
  constexpr std::array<std::string_view, 7> kEfforts = {
      "none", "minimal", "low", "medium", "high", "xhigh", "max"};
  const std::optional<std::string> effort = fields.text("reasoning_effort");
  if (!effort) return variables;
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
    throw ApiError(
        400,
        fmt::format(
            "reasoning_effort is '{}'; expected one of {}.", *effort, fmt::join(kEfforts, ", ")),
        "reasoning_effort");
  }
  variables["reasoning_effort"] = *effort;
  return variables;
}

api::ChatTemplateOptions read_chat_template_options(const RequestFields& fields,
                                                    const RequestPolicy& policy) {
  std::optional<std::string> own_template = fields.text("chat_template");
  if (own_template && !policy.trust_request_chat_template) {
    throw ApiError(400,
                   "A chat template of the request's own is not allowed; the model's is used. "
                   "--trust-request-chat-template allows it.",
                   "chat_template");
  }
  api::ChatTemplateOptions options{
      .chat_template = std::move(own_template),
      .add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true),
      .continue_final_message = fields.boolean("continue_final_message").value_or(false),
      .kwargs =
          with_reasoning_effort(fields, read_kwargs(fields, policy.default_chat_template_kwargs))};
  if (options.continue_final_message && options.add_generation_prompt) {
    throw ApiError(400,
                   "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                   "continue_final_message");
  }
  if (const Json* documents = fields.find("documents")) {
    if (!documents->is_array()) refuse_type("documents", "an array of objects", *documents);
    for (const Json& document : *documents) {
      if (!document.is_object()) refuse_type("documents", "an array of objects", document);
    }
    options.documents = *documents;
  }
  return options;
}

}  // namespace

ChatFields read_chat_fields(const RequestFields& fields, const RequestPolicy& policy) {
  ChatFields chat{.messages = read_messages(fields),
                  .tools = read_tool_use(fields),
                  .chat_template = read_chat_template_options(fields, policy)};
  const bool hides_tools =
      policy.exclude_tools_when_tool_choice_none && chat.tools.choice == ToolUse::Choice::none;
  if (!chat.tools.tools.empty() && !hides_tools) chat.chat_template.tools = chat.tools.tools;
  return chat;
}

}  // namespace reprise::server
