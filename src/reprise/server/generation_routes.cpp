#include "reprise/server/generation_routes.h"

#include "reprise/server/sampling_fields.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

void add_generation_routes(Router& router,
                           const api::AsyncEngine& engine,
                           GenerationService& generations,
                           const ServedModel& model,
                           const PromptEncoder& prompts) {
  const int32_t vocab_size = engine.tokenizer().vocab_size();
  const auto generate = [&generations, &model, &prompts, vocab_size](
                            const GenerationRequest& wanted,
                            const HttpRequest& request,
                            const ExchangeRef& exchange,
                            api::TimePoint arrived) {
    model.check(wanted.model);
    generations.check_room(wanted);
    check_sampling(wanted.params, wanted.is_chat ? Api::chat : Api::completions, vocab_size);
    generations.start(wanted, prompts.encode(wanted), request.request_id, exchange, arrived);
  };
  const sampling::SamplingParams defaults = engine.default_sampling_params();
  router.add(
      {.method = "POST",
       .path = "/v1/completions",
       .body_schema = "CompletionRequest",
       .answer_types = {"application/json", "text/event-stream"},
       .summary = "Continues prompts.",
       .handle = [generate, defaults](const HttpRequest& request, const ExchangeRef& exchange) {
         const auto arrived = std::chrono::steady_clock::now();
         generate(parse_completion_request(request.body, defaults), request, exchange, arrived);
       }});
  router.add(
      {.method = "POST",
       .path = "/v1/chat/completions",
       .body_schema = "ChatCompletionRequest",
       .answer_types = {"application/json", "text/event-stream"},
       .summary = "Answers a conversation.",
       .handle = [generate, defaults](const HttpRequest& request, const ExchangeRef& exchange) {
         const auto arrived = std::chrono::steady_clock::now();
         generate(parse_chat_request(request.body, defaults), request, exchange, arrived);
       }});
}

}  // namespace reprise::server
