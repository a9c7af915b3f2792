#include "reprise/server/openai/generation_routes.h"

#include "reprise/server/openai/chat_template_fields.h"

namespace reprise::server {

void add_generation_routes(Router& router,
                           const std::shared_ptr<const TextGeneration>& generation) {
  router.add(
      {.method = "POST",
       .path = "/v1/completions",
       .body_schema = "CompletionRequest",
       .answer_types = {"application/json", "text/event-stream"},
       .summary = "Continues prompts.",
       .handle = [generation](const HttpRequest&,
                              const ExchangeRef&) { generation->admit("Completions"); },
       .prepare =
           [generation](const HttpRequest& request) {
             const auto arrived = std::chrono::steady_clock::now();
             return generation->prepare(
                 parse_completion_request(request.body, generation->policy()), request, arrived);
           }});
  router.add({.method = "POST",
              .path = "/v1/chat/completions",
              .body_schema = "ChatCompletionRequest",
              .max_inline_bytes = max_inline_chat_bytes(generation->policy()),
              .answer_types = {"application/json", "text/event-stream"},
              .summary = "Answers a conversation.",
              .handle = [generation](const HttpRequest&,
                                     const ExchangeRef&) { generation->admit("Chat Completions"); },
              .prepare =
                  [generation](const HttpRequest& request) {
                    const auto arrived = std::chrono::steady_clock::now();
                    return generation->prepare(
                        parse_chat_request(request.body, generation->policy()), request, arrived);
                  }});
}

}  // namespace reprise::server
