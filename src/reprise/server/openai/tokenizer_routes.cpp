#include "reprise/server/openai/tokenizer_routes.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/openai/chat_template_fields.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {
namespace {

void check_size(size_t num_bytes, int64_t max_bytes, const char* field) {
  if (num_bytes <= static_cast<size_t>(max_bytes)) return;
  throw ApiError(400,
                 fmt::format("The answer would have more than {} bytes (--max-answer-bytes). Send "
                             "the input in parts.",
                             max_bytes),
                 field);
}

/// The body of the answer. Written directly as text, because a million tokens as Json take 30 times
/// the memory. `spelled_by` is null if the texts of the tokens are not wanted.
std::string tokens_json(std::span<const int32_t> ids,
                        const tokenizer::Tokenizer* spelled_by,
                        const ServedModel& model,
                        int64_t max_bytes,
                        const WorkLimit& work) {
  constexpr size_t kTokensBetweenChecks = 4096;
  std::string json = fmt::format(
      R"({{"count":{},"max_model_len":{},"tokens":[)", ids.size(), model.max_model_len());
  const auto append_each = [&](const auto& text_of) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % kTokensBetweenChecks == 0) work.check();
      if (i > 0) json += ',';
      json += text_of(ids[i]);
      check_size(json.size(), max_bytes, "prompt");
    }
  };
  append_each([](int32_t id) { return fmt::to_string(id); });
  json += R"(],"token_strs":)";
  if (spelled_by == nullptr) return json + "null}";
  json += '[';
  append_each(
      [spelled_by](int32_t id) { return dump(Json(spelled_by->id_to_token(id).value_or(""))); });
  return json + "]}";
}

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

/// The answer of /tokenizer_info, for clients that tokenize through the server. Its members are
/// named as in tokenizer_config.json.
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
                const ServedModel& model,
                int64_t max_bytes) {
  model.check(wanted.model);
  const tokenizer::Tokenizer& tokenizer = engine.tokenizer();
  size_t num_bytes = 0;
  for (int32_t id : wanted.tokens) {
    if (id >= tokenizer.vocab_size())
      throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "tokens");
    num_bytes += tokenizer.id_to_token(id).value_or("").size();
    check_size(num_bytes, max_bytes, "tokens");
  }
  constexpr bool kSkipSpecialTokens = false;
  return {{"prompt", tokenizer.decode(wanted.tokens, kSkipSpecialTokens)}};
}

}  // namespace

std::vector<int32_t> token_ids_of(const TokenizeRequest& wanted,
                                  const api::AsyncEngine& engine,
                                  const ServedModel& model,
                                  const WorkLimit& work) {
  model.check(wanted.model);
  const api::ChatPrompt prompt =
      wanted.prompt ? api::ChatPrompt{.text = *wanted.prompt}
                    : engine.render_chat(wanted.messages, wanted.chat_template, work);
  return engine.tokenizer().encode(prompt.text,
                                   {.add_special_tokens = wanted.add_special_tokens,
                                    .plain_at = prompt.plain_at,
                                    .work = &work});
}

void add_tokenizer_routes(Router& router,
                          const api::AsyncEngine& engine,
                          const ServedModel& model,
                          const RequestPolicy& policy,
                          int64_t max_answer_bytes) {
  const auto answer = [](std::string json, const std::vector<std::string>& unused) -> Answering {
    return {[body = std::move(json)](const ExchangeRef& exchange) {
              exchange->respond({.body = body});
            },
            unused};
  };
  router.add(
      {.method = "POST",
       .path = "/tokenize",
       .body_schema = "TokenizeRequest",
       .max_inline_bytes = max_inline_chat_bytes(policy),
       .summary = "The token ids of a text or a conversation.",
       .prepare = [answer, &engine, &model, policy, max_answer_bytes](const HttpRequest& request) {
         const TokenizeRequest wanted = parse_tokenize_request(request.body, policy);
         const std::vector<int32_t> ids = token_ids_of(wanted, engine, model, request.work);
         return answer(tokens_json(ids,
                                   wanted.return_token_strs ? &engine.tokenizer() : nullptr,
                                   model,
                                   max_answer_bytes,
                                   request.work),
                       wanted.unused_fields);
       }});
  router.add({.method = "POST",
              .path = "/detokenize",
              .body_schema = "DetokenizeRequest",
              .summary = "The text of token ids.",
              .prepare = [answer, &engine, &model, max_answer_bytes](const HttpRequest& request) {
                const DetokenizeRequest wanted = parse_detokenize_request(request.body);
                return answer(dump(detokenize(wanted, engine, model, max_answer_bytes)),
                              wanted.unused_fields);
              }});
  router.add({.method = "GET",
              .path = "/tokenizer_info",
              .summary = "Special tokens and the chat template.",
              .handle = [&engine, &model](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump(tokenizer_info(engine, model))});
              }});
}

}  // namespace reprise::server
