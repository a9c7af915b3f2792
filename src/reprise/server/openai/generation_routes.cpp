#include "reprise/server/openai/generation_routes.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/openai/chat_template_fields.h"
#include "reprise/server/openai/sampling_fields.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

void add_generation_routes(Router& router,
                           const api::AsyncEngine& engine,
                           GenerationService& generations,
                           const ServedModel& model,
                           const PromptEncoder& prompts,
                           const AnswerReaderOptions& answers,
                           RequestPolicy policy) {
  const auto prepare =
      [&generations, &model, &prompts, &engine, answers](
          GenerationRequest wanted, const HttpRequest& from, api::TimePoint arrived) -> Answering {
    wanted.client = from.client;
    model.choose(wanted.model, wanted.options);
    prepare_kv_transfer(wanted, engine.kv_transfer());
    expand_logprobs(wanted.params, engine.tokenizer().vocab_size());
    check_sampling(wanted.params,
                   wanted.is_chat ? Api::chat : Api::completions,
                   engine.tokenizer().vocab_size(),
                   engine.startup_report().max_logprobs);
    std::optional<structured_output::ReasoningDelimiters> delimiters;
    if (wanted.is_chat) {
      wanted.create_parser = answer_parser(answers, wanted.tools);
      // The delimiters that the parsers search for may be special tokens, so special tokens stay in
      // the text.
      const bool is_marked =
          wanted.tools.choice == ToolUse::Choice::automatic || !answers.reasoning_parser.empty();
      if (is_marked) wanted.params.skip_special_tokens = false;
    }
    std::vector<EncodedPrompt> encoded = prompts.encode(wanted, from.work);
    if (wanted.is_chat && !answers.reasoning_parser.empty()) {
      // The chat template may have begun the reasoning, or an empty one, in the prompt.
      const std::optional<bool> begins_inside =
          ends_in_reasoning(answers,
                            engine.tokenizer(),
                            encoded.front().token_ids,
                            wanted.chat_template.continue_final_message);
      wanted.create_parser = answer_parser(answers, wanted.tools, begins_inside);
      if (wanted.asked_output) {
        delimiters = reasoning_delimiters(answers, engine.tokenizer(), begins_inside);
      }
    }
    std::vector<std::string> unused_fields = std::move(wanted.unused_fields);
    return {[&generations,
             encoded = std::move(encoded),
             wanted = std::move(wanted),
             delimiters,
             request_id = from.request_id,
             arrived](const ExchangeRef& exchange) {
              if (wanted.asked_output) {
                generations.start_constrained(
                    wanted, encoded, delimiters, request_id, exchange, arrived);
              } else {
                generations.start(wanted, encoded, request_id, exchange, arrived);
              }
            },
            std::move(unused_fields)};
  };
  // A full server refuses the request before it works on the body.
  const bool generates = !engine.startup_report().pooling.has_value();
  const auto admit_to = [&generations, generates](const char* name) {
    return [&generations, generates, name](const HttpRequest&, const ExchangeRef&) {
      if (!generates) throw ApiError(400, fmt::format("The model does not support {} API", name));
      generations.check_room(1);
    };
  };
  policy.params = engine.default_sampling_params();
  router.add({.method = "POST",
              .path = "/v1/completions",
              .body_schema = "CompletionRequest",
              .answer_types = {"application/json", "text/event-stream"},
              .summary = "Continues prompts.",
              .handle = admit_to("Completions"),
              .prepare = [prepare, policy](const HttpRequest& request) {
                const auto arrived = std::chrono::steady_clock::now();
                return prepare(parse_completion_request(request.body, policy), request, arrived);
              }});
  router.add({.method = "POST",
              .path = "/v1/chat/completions",
              .body_schema = "ChatCompletionRequest",
              .max_inline_bytes = max_inline_chat_bytes(policy),
              .answer_types = {"application/json", "text/event-stream"},
              .summary = "Answers a conversation.",
              .handle = admit_to("Chat Completions"),
              .prepare = [prepare, policy](const HttpRequest& request) {
                const auto arrived = std::chrono::steady_clock::now();
                return prepare(parse_chat_request(request.body, policy), request, arrived);
              }});
}

}  // namespace reprise::server
