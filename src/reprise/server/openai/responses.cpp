#include "reprise/server/openai/responses.h"

#include <fmt/format.h>

#include <type_traits>
#include <variant>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

Json reason_json(std::string_view reason) { return reason.empty() ? Json(nullptr) : Json(reason); }

Json stop_reason_json(const scheduler::StopReason* reason) {
  if (reason == nullptr) return nullptr;
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      *reason);
}

Json head_json(const AnswerHead& head, std::string_view object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

Json chunk_json(const AnswerHead& head, Json choices) {
  Json json = head_json(head, head.is_chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = std::move(choices);
  return json;
}

void add_prompt_parts(Json& json, const ChoicePart& choice) {
  if (choice.shows_prompt_token_ids) json["prompt_token_ids"] = choice.prompt_token_ids;
  if (!choice.shown_prompt_logprobs.is_null()) {
    json["prompt_logprobs"] = choice.shown_prompt_logprobs;
  }
}

Json choice_json(const ChoicePart& choice, const char* name, Json content) {
  Json json = {{"index", choice.index},
               {name, std::move(content)},
               {"logprobs", choice.shown_logprobs},
               {"finish_reason", reason_json(choice.finish_reason)},
               {"stop_reason", stop_reason_json(choice.stop_reason)}};
  if (choice.shows_token_ids) json["token_ids"] = choice.token_ids;
  return json;
}

Json completion_choice_json(const ChoicePart& choice) {
  Json json = choice_json(choice, "text", choice.text);
  add_prompt_parts(json, choice);
  return json;
}

/// The content of a message that consists only of tool calls is null.
Json message_json(const ChoicePart& choice, Json message) {
  if (choice.text.empty() && choice.more.contains("tool_calls")) message["content"] = nullptr;
  message.update(choice.more);
  return message;
}

Json delta_json(const ChoicePart& choice) {
  Json delta = choice.more;
  if (delta.empty() || !choice.text.empty()) delta["content"] = choice.text;
  return delta;
}

}  // namespace

Json to_json(const Usage& usage) {
  Json json = {
      {"prompt_tokens", usage.prompt_tokens},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
      {"completion_tokens", usage.completion_tokens},
      {"prompt_tokens_details",
       usage.cached_tokens ? Json{{"cached_tokens", *usage.cached_tokens}} : Json(nullptr)}};
  if (usage.reasoning_tokens) {
    json["completion_tokens_details"] = {{"reasoning_tokens", *usage.reasoning_tokens}};
  }
  if (usage.decode_ns) json["decode_ns"] = *usage.decode_ns;
  return json;
}

Json answer_json(const AnswerHead& head,
                 const std::vector<ChoicePart>& choices,
                 const Usage& usage) {
  Json json = head_json(head, head.is_chat ? "chat.completion" : "text_completion");
  json["choices"] = Json::array();
  for (const ChoicePart& choice : choices) {
    json["choices"].push_back(head.is_chat ? choice_json(choice,
                                                         "message",
                                                         message_json(choice,
                                                                      {{"role", head.role},
                                                                       {"content", choice.text},
                                                                       {"refusal", nullptr}}))
                                           : completion_choice_json(choice));
  }
  if (head.is_chat && !choices.empty()) add_prompt_parts(json, choices.front());
  json["usage"] = to_json(usage);
  json["system_fingerprint"] = nullptr;
  return json;
}

Json role_chunk(const AnswerHead& head, int index) {
  return chunk_json(head,
                    Json::array({{{"index", index},
                                  {"delta", {{"role", head.role}, {"content", ""}}},
                                  {"logprobs", nullptr},
                                  {"finish_reason", nullptr}}}));
}

Json text_chunk(const AnswerHead& head, const ChoicePart& choice) {
  return chunk_json(head,
                    Json::array({head.is_chat ? choice_json(choice, "delta", delta_json(choice))
                                              : completion_choice_json(choice)}));
}

Json usage_chunk(const AnswerHead& head, const Usage& usage) {
  Json json = chunk_json(head, Json::array());
  json["usage"] = to_json(usage);
  return json;
}

std::string sse_event(const Json& json) { return fmt::format("data: {}\n\n", dump(json)); }

Json model_json(std::string_view name,
                std::string_view root,
                std::string_view parent,
                int64_t created,
                int32_t max_model_len) {
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "reprise"},
          {"root", root},
          {"parent", parent.empty() ? Json(nullptr) : Json(parent)},
          {"max_model_len", max_model_len},
          {"permission", Json::array()}};
}

}  // namespace reprise::server
