#include "reprise/server/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reprise/base/text/utf8.h"

namespace reprise::server {
namespace {

using sampling::PositionLogprobs;
using sampling::TokenLogprob;

// JSON has no infinities; vLLM writes this value for every smaller one.
constexpr double kLeastLogprob = -9999.0;

double shown(float logprob) {
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLeastLogprob)
                                : kLeastLogprob;
}

int64_t num_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
}

Json bytes_json(std::string_view text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json chat_token_json(const TokenLogprob& token, const TokenSpelling& spelling) {
  const std::string text = spelling(token.token_id);
  return {{"token", text}, {"logprob", shown(token.logprob)}, {"bytes", bytes_json(text)}};
}

Json top_by_text(const PositionLogprobs& position, const TokenSpelling& spelling) {
  Json top = Json::object();
  const auto add = [&](const TokenLogprob& token) {
    const auto [entry, is_new] = top.emplace(spelling(token.token_id), shown(token.logprob));
    if (!is_new && entry->get<double>() < shown(token.logprob)) *entry = shown(token.logprob);
  };
  add(position.token);
  for (const TokenLogprob& token : position.top) add(token);
  return top;
}

}  // namespace

std::string TokenSpelling::operator()(int32_t token_id) const {
  if (form_ == Form::id) return fmt::format("token_id:{}", token_id);
  constexpr bool kSkipSpecialTokens = false;
  return tokenizer_->decode({&token_id, 1}, kSkipSpecialTokens);
}

Json completion_logprobs_json(std::span<const ShownToken> tokens,
                              const TokenSpelling& spelling,
                              int64_t& text_offset) {
  Json offsets = Json::array();
  Json logprobs = Json::array();
  Json texts = Json::array();
  Json tops = Json::array();
  for (const ShownToken& token : tokens) {
    const std::string text = spelling(token.token_id);
    offsets.push_back(text_offset);
    text_offset += num_characters(text);
    texts.push_back(text);
    if (token.logprobs == nullptr) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
    } else {
      logprobs.push_back(shown(token.logprobs->token.logprob));
      tops.push_back(top_by_text(*token.logprobs, spelling));
    }
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(texts)},
          {"top_logprobs", std::move(tops)}};
}

Json chat_logprobs_json(std::span<const ShownToken> tokens, const TokenSpelling& spelling) {
  Json content = Json::array();
  for (const ShownToken& token : tokens) {
    if (token.logprobs == nullptr) continue;
    Json entry = chat_token_json(token.logprobs->token, spelling);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : token.logprobs->top) {
      entry["top_logprobs"].push_back(chat_token_json(top, spelling));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

Json prompt_logprobs_json(std::span<const PositionLogprobs> logprobs,
                          const TokenSpelling& spelling) {
  Json positions = Json::array({nullptr});
  for (const PositionLogprobs& position : logprobs) {
    Json entry = Json::object();
    const auto add = [&](const TokenLogprob& token) {
      entry.emplace(std::to_string(token.token_id),
                    Json{{"logprob", shown(token.logprob)},
                         {"rank", token.rank},
                         {"decoded_token", spelling(token.token_id)}});
    };
    add(position.token);
    for (const TokenLogprob& token : position.top) add(token);
    positions.push_back(std::move(entry));
  }
  return positions;
}

}  // namespace reprise::server
