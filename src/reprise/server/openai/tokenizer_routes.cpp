#include "reprise/server/openai/tokenizer_routes.h"

#include <fmt/format.h>

#include <optional>

#include "reprise/server/openai/chat_template_fields.h"
#include "reprise/server/openai/tokenize_request.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {
namespace {

Json tokenize(const TokenizeRequest& wanted,
              const api::AsyncEngine& engine,
              const ServedModel& model,
              const WorkLimit& work) {
  model.check(wanted.model);
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  const api::ChatPrompt prompt =
      wanted.prompt ? api::ChatPrompt{.text = *wanted.prompt}
                    : engine.render_chat(wanted.messages, wanted.chat_template, work);
  const std::vector<int32_t> ids =
      tokenizer.encode(prompt.text,
                       {.add_special_tokens = wanted.add_special_tokens,
                        .plain_at = prompt.plain_at,
                        .work = &work});
  Json answer = {{"count", ids.size()},
                 {"max_model_len", model.max_model_len()},
                 {"tokens", ids},
                 {"token_strs", nullptr}};
  if (wanted.return_token_strs) {
    answer["token_strs"] = Json::array();
    for (int32_t id : ids) answer["token_strs"].push_back(tokenizer.id_to_token(id).value_or(""));
  }
  return answer;
}

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

/// The answer for clients that tokenize through the server, with the names of
/// tokenizer_config.json.
Json tokenizer_info(const api::AsyncEngine& engine, const ServedModel& model) {
  const tokenizer::TokenizerConfig& config = engine.tokenizer().config();
  const std::string_view chat_template = engine.chat_template();
  return {{"bos_token", text_or_null(config.bos_token)},
          {"eos_token", text_or_null(config.eos_token)},
          {"pad_token", text_or_null(config.pad_token)},
          {"unk_token", text_or_null(config.unk_token)},
          {"add_bos_token", config.add_bos_token.value_or(false)},
          {"add_eos_token", config.add_eos_token.value_or(false)},
          {"model_max_length", model.max_model_len()},
          {"chat_template", chat_template.empty() ? Json(nullptr) : Json(chat_template)}};
}

Json detokenize(const DetokenizeRequest& wanted,
                const api::AsyncEngine& engine,
                const ServedModel& model) {
  model.check(wanted.model);
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  for (int32_t id : wanted.tokens) {
    if (id >= tokenizer.vocab_size())
      throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "tokens");
  }
  constexpr bool kSkipSpecialTokens = false;
  return {{"prompt", tokenizer.decode(wanted.tokens, kSkipSpecialTokens)}};
}

}  // namespace

void add_tokenizer_routes(Router& router,
                          const api::AsyncEngine& engine,
                          const ServedModel& model,
                          const RequestPolicy& policy) {
  const auto answer = [](const Json& json) -> Answering {
    return [body = dump(json)](const ExchangeRef& exchange) { exchange->respond({.body = body}); };
  };
  router.add({.method = "POST",
              .path = "/tokenize",
              .body_schema = "TokenizeRequest",
              .max_inline_bytes = max_inline_chat_bytes(policy),
              .summary = "The token ids of a text or a conversation.",
              .prepare = [answer, &engine, &model, policy](const HttpRequest& request) {
                return answer(tokenize(
                    parse_tokenize_request(request.body, policy), engine, model, request.work));
              }});
  router.add({.method = "POST",
              .path = "/detokenize",
              .body_schema = "DetokenizeRequest",
              .summary = "The text of token ids.",
              .prepare = [answer, &engine, &model](const HttpRequest& request) {
                return answer(detokenize(parse_detokenize_request(request.body), engine, model));
              }});
  router.add({.method = "GET",
              .path = "/tokenizer_info",
              .summary = "Special tokens and the chat template.",
              .handle = [&engine, &model](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump(tokenizer_info(engine, model))});
              }});
}

}  // namespace reprise::server
