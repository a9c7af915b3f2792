#include "reprise/server/openai/prompt_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "reprise/server/http/api_error.h"
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

// The smallest number of tokens of the context that the answer needs.
int64_t num_output_tokens(const GenerationRequest& request) {
  return request.pooling ? 0 : request.params.max_tokens.value_or(1);
}

}  // namespace

PromptEncoder::PromptEncoder(const api::AsyncEngine& engine)
    : engine_(&engine),
      max_model_len_(engine.startup_report().max_model_len),
      num_decoder_prompt_tokens_(engine.startup_report().num_decoder_prompt_tokens),
      max_token_bytes_(longest_token_bytes(engine.tokenizer())) {}

std::vector<EncodedPrompt> PromptEncoder::encode(const GenerationRequest& request,
                                                 const WorkLimit& work) const {
  if (request.pooling && request.pooling->compares_pairs()) return encode_pairs(request, work);
  std::vector<EncodedPrompt> prompts;
  if (request.is_chat) {
    const api::ChatPrompt chat =
        engine_->render_chat(request.messages, request.chat_template, work);
    prompts.push_back({.token_ids = encode_text(chat.text, request, work, chat.plain_at)});
    truncate(prompts.back().token_ids, request);
    if (request.return_prompt_text) prompts.back().text = chat.text;
  }
  for (const Prompt& prompt : request.prompts) {
    prompts.push_back(encode_prompt(prompt, request, work));
  }
  for (const EncodedPrompt& prompt : prompts) {
    check_length(prompt.token_ids.size(), num_output_tokens(request));
  }
  return prompts;
}

std::vector<EncodedPrompt> PromptEncoder::encode_pairs(const GenerationRequest& request,
                                                       const WorkLimit& work) const {
  const size_t num_queries = request.pooling->num_queries;
  std::vector<EncodedPrompt> pairs;
  for (size_t i = num_queries; i < request.prompts.size(); ++i) {
    const Prompt& query = request.prompts[num_queries == 1 ? 0 : i - num_queries];
    EncodedPrompt pair = encode_pair(
        std::get<std::string>(query), std::get<std::string>(request.prompts[i]), request, work);
    const size_t num_whole = pair.token_ids.size();
    const bool is_cut = truncate(pair.token_ids, request);
    if (is_cut && request.truncation.keeps_end &&
        pair.second_text_begin < scheduler::kNoSecondText) {
      const auto num_dropped = static_cast<int32_t>(num_whole - pair.token_ids.size());
      pair.second_text_begin = std::max(pair.second_text_begin - num_dropped, 0);
    }
    check_length(pair.token_ids.size(), 0);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// Source: vLLM 0.32, CrossEncoderIOProcessor: a template that the user gave, or the tokenizer's
// own form of two texts, or for a classifier made from tokens the texts one after the other.
EncodedPrompt PromptEncoder::encode_pair(const std::string& first,
                                         const std::string& second,
                                         const GenerationRequest& request,
                                         const WorkLimit& work) const {
  const weights::ClassifierConfig& classifier = *request.pooling->classifier;
  EncodedPrompt encoded;
  if (classifier.uses_chat_template) {
    const Json messages = {{{"role", "query"}, {"content", first}},
                           {{"role", "document"}, {"content", second}}};
    const api::ChatPrompt chat =
        engine_->render_chat(messages, {.add_generation_prompt = false}, work);
    encoded.token_ids = encode_text(chat.text, request, work, chat.plain_at);
    return encoded;
  }
  if (!classifier.from_tokens.empty()) {
    encoded.token_ids = encode_text(first + second, request, work);
    return encoded;
  }
  refuse_long_text(first, request);
  refuse_long_text(second, request);
  tokenizer::EncodedPair pair = engine_->tokenizer().encode_pair(
      first, second, {.add_special_tokens = request.add_special_tokens, .work = &work});
  encoded.token_ids = std::move(pair.ids);
  if (pair.second_begin) encoded.second_text_begin = static_cast<int32_t>(*pair.second_begin);
  return encoded;
}

EncodedPrompt PromptEncoder::encode_prompt(const Prompt& prompt,
                                           const GenerationRequest& request,
                                           const WorkLimit& work) const {
  const tokenizer::Tokenizer& tokenizer = engine_->tokenizer();
  const auto* text = std::get_if<std::string>(&prompt);
  EncodedPrompt encoded;
  if (text != nullptr) {
    encoded.token_ids = encode_text(*text, request, work);
  } else {
    encoded.token_ids = std::get<std::vector<int32_t>>(prompt);
    for (int32_t id : encoded.token_ids) {
      if (id >= tokenizer.vocab_size()) {
        throw ApiError(400, fmt::format("Token id {} is out of vocabulary.", id), "prompt");
      }
    }
  }
  const bool is_cut = truncate(encoded.token_ids, request);
  if (request.echo) {
    constexpr bool kSkipSpecialTokens = false;
    encoded.text = text != nullptr && !is_cut
                       ? *text
                       : tokenizer.decode(encoded.token_ids, kSkipSpecialTokens);
  }
  return encoded;
}

bool PromptEncoder::truncate(std::vector<int32_t>& token_ids,
                             const GenerationRequest& request) const {
  if (!request.truncation.num_tokens) return false;
  const int64_t most = *request.truncation.num_tokens;
  if (most > max_model_len_) {
    throw ApiError(400,
                   fmt::format("truncate_prompt_tokens value ({}) is greater than max_model_len "
                               "({}). Please request a smaller truncation size.",
                               most,
                               max_model_len_),
                   "truncate_prompt_tokens");
  }
  const int64_t fitting =
      max_model_len_ - (num_decoder_prompt_tokens_ > 0 ? 0 : num_output_tokens(request));
  const auto kept = static_cast<size_t>(std::max<int64_t>(most == -1 ? fitting : most, 0));
  if (token_ids.size() <= kept) return false;
  const auto num_dropped = static_cast<std::ptrdiff_t>(token_ids.size() - kept);
  if (request.truncation.keeps_end) {
    token_ids.erase(token_ids.begin(), token_ids.begin() + num_dropped);
  } else {
    token_ids.erase(token_ids.end() - num_dropped, token_ids.end());
  }
  return true;
}

std::vector<int32_t> PromptEncoder::encode_text(std::string_view text,
                                                const GenerationRequest& request,
                                                const WorkLimit& work,
                                                std::span<const size_t> plain_at) const {
  refuse_long_text(text, request);
  return engine_->tokenizer().encode(
      text,
      {.add_special_tokens = request.add_special_tokens, .plain_at = plain_at, .work = &work});
}

// A text that is certainly too long is refused before the costly tokenization.
void PromptEncoder::refuse_long_text(std::string_view text,
                                     const GenerationRequest& request) const {
  if (request.truncation.num_tokens) return;
  if (text.size() / max_token_bytes_ <= static_cast<size_t>(max_model_len_)) return;
  throw ApiError(
      400,
      fmt::format("This model's maximum context length is {} tokens. However, your prompt of "
                  "{} bytes has more.",
                  max_model_len_,
                  text.size()),
      "input_tokens");
}

void PromptEncoder::check_length(size_t num_prompt_tokens, int64_t num_output) const {
  if (num_prompt_tokens == 0) throw ApiError(400, "The prompt must not be empty.", "prompt");
  auto num_input = static_cast<int64_t>(num_prompt_tokens);
  if (num_decoder_prompt_tokens_ > 0) {
    if (num_input > max_model_len_) {
      throw ApiError(400,
                     fmt::format("This model's encoder reads at most {} tokens. However, your "
                                 "prompt contains {} input tokens. Please reduce the length of "
                                 "the input prompt.",
                                 max_model_len_,
                                 num_input),
                     "input_tokens");
    }
    // The encoder's text takes no positions from the answer, so only the decoder's prompt counts.
    num_input = num_decoder_prompt_tokens_;
  }
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
