#include "reprise/server/dialects/anthropic_routes.h"

#include <utility>

#include "reprise/server/dialects/anthropic_answer.h"
#include "reprise/server/dialects/anthropic_request.h"
#include "reprise/server/dialects/translated_chat.h"
#include "reprise/server/openai/request_fields.h"
#include "reprise/server/openai/tokenizer_routes.h"

namespace reprise::server {
namespace {

Answering count_tokens(const TextGeneration& generation, const HttpRequest& request) {
  TranslatedChat chat = read_anthropic_count_request(parse_body(request.body));
  const TokenizeRequest wanted = read_tokenize_request(chat.body, generation.policy());
  const size_t count =
      token_ids_of(wanted, generation.engine(), generation.model(), request.work).size();
  return {[count](const ExchangeRef& exchange) {
            exchange->respond({.body = dump({{"input_tokens", count}})});
          },
          std::move(chat.unused_fields)};
}

}  // namespace

void add_anthropic_routes(Router& router, const std::shared_ptr<const TextGeneration>& generation) {
  router.add(
      {.method = "POST",
       .path = "/v1/messages",
       .body_schema = "MessagesRequest",
       .answer_types = {"application/json", "text/event-stream"},
       .summary = "Answers a conversation of Anthropic's Messages API.",
       .handle = [generation](const HttpRequest&,
                              const ExchangeRef&) { generation->admit("Messages"); },
       .prepare =
           [generation](const HttpRequest& request) {
             const auto arrived = std::chrono::steady_clock::now();
             return prepare_translated(
                 *generation, read_anthropic_request(parse_body(request.body)), request, arrived);
           },
       .reshape_error = anthropic_error});
  router.add(
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .body_schema = "CountTokensRequest",
       .summary = "The number of tokens of a conversation of Anthropic's Messages API.",
       .prepare =
           [generation](const HttpRequest& request) { return count_tokens(*generation, request); },
       .reshape_error = anthropic_error});
}

}  // namespace reprise::server
