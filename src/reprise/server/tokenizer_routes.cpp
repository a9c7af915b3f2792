#include "reprise/server/tokenizer_routes.h"

#include <fmt/format.h>

#include "reprise/server/generation_request.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {
namespace {

Json tokenize(const TokenizeRequest& wanted,
              const api::AsyncEngine& engine,
              const ServedModel& model) {
  model.check(wanted.model);
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  const std::string text =
      wanted.prompt ? *wanted.prompt : engine.apply_chat_template(wanted.messages);
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special_tokens = wanted.add_special_tokens});
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
                          const ServedModel& model) {
  router.add({.method = "POST",
              .path = "/tokenize",
              .body = RequestBody::json,
              .summary = "The token ids of a text or a conversation.",
              .handle = [&engine, &model](const HttpRequest& request, const ExchangeRef& exchange) {
                exchange->respond(
                    {.body = dump(tokenize(parse_tokenize_request(request.body), engine, model))});
              }});
  router.add({.method = "POST",
              .path = "/detokenize",
              .body = RequestBody::json,
              .summary = "The text of token ids.",
              .handle = [&engine, &model](const HttpRequest& request, const ExchangeRef& exchange) {
                exchange->respond({.body = dump(detokenize(
                                       parse_detokenize_request(request.body), engine, model))});
              }});
}

}  // namespace reprise::server
