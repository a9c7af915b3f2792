#include "reprise/server/openai/text_generation.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/openai/sampling_fields.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

TextGeneration::TextGeneration(const api::AsyncEngine& engine,
                               GenerationService& generations,
                               const ServedModel& model,
                               const PromptEncoder& prompts,
                               AnswerReaderOptions answers,
                               RequestPolicy policy)
    : engine_(&engine),
      generations_(&generations),
      model_(&model),
      prompts_(&prompts),
      answers_(std::move(answers)),
      policy_(std::move(policy)) {
  policy_.params = engine.default_sampling_params();
}

void TextGeneration::admit(const char* api) const {
  if (engine_->startup_report().pooling) {
    throw ApiError(400, fmt::format("The model does not support {} API", api));
  }
  generations_->check_room(1);
}

Answering TextGeneration::prepare(GenerationRequest wanted,
                                  const HttpRequest& from,
                                  api::TimePoint arrived) const {
  wanted.client = from.client;
  wanted.trace_parent = from.trace_parent;
  model_->choose(wanted.model, wanted.options);
  prepare_kv_transfer(wanted, engine_->kv_transfer());
  const int vocab_size = engine_->tokenizer().vocab_size();
  const int max_logprobs = engine_->startup_report().max_logprobs;
  expand_logprobs(wanted.params, vocab_size, max_logprobs);
  check_sampling(
      wanted.params, wanted.is_chat ? Api::chat : Api::completions, vocab_size, max_logprobs);
  wanted.may_reason = wanted.is_chat && !answers_.reasoning_parser.empty();
  if (wanted.is_chat) {
    wanted.create_parser = answer_parser(answers_, wanted.tools);
    // The delimiters that the parsers search for may be special tokens, so special tokens stay in
    // the text.
    if (wanted.tools.choice == ToolUse::Choice::automatic || wanted.may_reason) {
      wanted.params.skip_special_tokens = false;
    }
  }
  std::vector<EncodedPrompt> encoded = prompts_->encode(wanted, from.work);
  std::optional<structured_output::ReasoningDelimiters> delimiters;
  if (wanted.may_reason) {
    // The chat template may have written the beginning of the reasoning, or an empty reasoning,
    // into the prompt.
    const std::optional<bool> begins_inside =
        ends_in_reasoning(answers_,
                          engine_->tokenizer(),
                          encoded.front().token_ids,
                          wanted.chat_template.continue_final_message);
    wanted.create_parser = answer_parser(answers_, wanted.tools, begins_inside);
    if (wanted.asked_output) {
      delimiters = reasoning_delimiters(answers_, engine_->tokenizer(), begins_inside);
    }
  }
  std::vector<std::string> unused_fields = std::move(wanted.unused_fields);
  return {[generations = generations_,
           encoded = std::move(encoded),
           wanted = std::move(wanted),
           delimiters,
           request_id = from.request_id,
           arrived](const ExchangeRef& exchange) {
            if (wanted.asked_output) {
              generations->start_constrained(
                  wanted, encoded, delimiters, request_id, exchange, arrived);
            } else {
              generations->start(wanted, encoded, request_id, exchange, arrived);
            }
          },
          std::move(unused_fields)};
}

}  // namespace reprise::server
