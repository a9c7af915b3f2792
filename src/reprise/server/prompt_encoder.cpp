#include "reprise/server/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "reprise/server/api_error.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {
namespace {

size_t longest_token_bytes(const tokenizer::Tokenizer& tokenizer) {
  size_t longest = 1;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (const auto token = tokenizer.id_to_token(id)) longest = std::max(longest, token->size());
  }
  return longest;
}

}  // namespace

PromptEncoder::PromptEncoder(const api::AsyncEngine& engine)
    : engine_(&engine),
      max_model_len_(engine.startup_report().max_model_len),
      max_token_bytes_(longest_token_bytes(engine.tokenizer())) {}

std::vector<std::vector<int32_t>> PromptEncoder::encode(const GenerationRequest& request) const {
  std::vector<std::vector<int32_t>> prompts;
  if (request.is_chat) {
    prompts.push_back(
        encode_text(engine_->apply_chat_template(request.messages), request.add_special_tokens));
  }
  const int32_t vocab_size = engine_->tokenizer().vocab_size();
  for (const Prompt& prompt : request.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      prompts.push_back(encode_text(*text, request.add_special_tokens));
      continue;
    }
    prompts.push_back(std::get<std::vector<int32_t>>(prompt));
    for (int32_t id : prompts.back()) {
      if (id >= vocab_size)
        throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "prompt");
    }
  }
  for (const std::vector<int32_t>& prompt : prompts) check_length(prompt.size(), request.params);
  return prompts;
}

std::vector<int32_t> PromptEncoder::encode_text(const std::string& text,
                                                bool add_special_tokens) const {
  // Nothing is gained by tokenizing megabytes to find out that they are too many.
  if (text.size() / max_token_bytes_ > static_cast<size_t>(max_model_len_)) {
    throw ApiError(
        400,
        fmt::format("This model's maximum context length is {} tokens. However, your prompt of "
                    "{} bytes has more.",
                    max_model_len_,
                    text.size()),
        "input_tokens");
  }
  return engine_->tokenizer().encode(text, {.add_special_tokens = add_special_tokens});
}

void PromptEncoder::check_length(size_t num_prompt_tokens,
                                 const sampling::SamplingParams& params) const {
  if (num_prompt_tokens == 0) throw ApiError(400, "The prompt must not be empty.", "prompt");
  const auto num_input = static_cast<int64_t>(num_prompt_tokens);
  const int64_t num_output = params.max_tokens.value_or(1);
  if (num_input + num_output <= max_model_len_) return;
  throw ApiError(
      400,
      fmt::format("This model's maximum context length is {} tokens. However, you requested {} "
                  "output tokens and your prompt contains {} input tokens, for a total of {} "
                  "tokens. Please reduce the length of the input prompt or the number of "
                  "requested output tokens.",
                  max_model_len_,
                  num_output,
                  num_input,
                  num_input + num_output),
      "input_tokens");
}

}  // namespace reprise::server
