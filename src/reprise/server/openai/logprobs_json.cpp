#include "reprise/server/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/token_bytes.h"

namespace reprise::server {
namespace {

using sampling::PositionLogprobs;
using sampling::TokenLogprob;

// JSON has no infinities; vLLM writes this value in place of every smaller one.
constexpr double kLeastLogprob = -9999.0;

double shown(float logprob) {
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLeastLogprob)
                                : kLeastLogprob;
}

Json bytes_json(std::string_view text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json chat_token_json(const TokenLogprob& token, const TokenSpelling& spelling) {
  return {{"token", spelling(token.token_id)},
          {"logprob", shown(token.logprob)},
          {"bytes", bytes_json(spelling.bytes(token.token_id))}};
}

Json top_by_text(const PositionLogprobs& position, const TokenSpelling& spelling) {
  Json top = Json::object();
  const auto add = [&](const TokenLogprob& token) {
    const auto [entry, is_new] =
        top.emplace(spelling.with_bytes(token.token_id), shown(token.logprob));
    if (!is_new && entry->get<double>() < shown(token.logprob)) *entry = shown(token.logprob);
  };
  add(position.token);
  for (const TokenLogprob& token : position.top) add(token);
  return top;
}

}  // namespace

std::string TokenSpelling::operator()(int32_t token_id) const {
  if (form_ == Form::id) return fmt::format("token_id:{}", token_id);
  return to_valid_utf8(bytes(token_id));
}

std::string TokenSpelling::with_bytes(int32_t token_id) const {
  if (form_ == Form::id) return (*this)(token_id);
  std::string text = bytes(token_id);
  if (is_valid_utf8(text)) return text;
  std::string spelled = "bytes:";
  for (const char c : text) spelled += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return spelled;
}

std::string TokenSpelling::bytes(int32_t token_id) const {
  return tokenizer::token_bytes(*tokenizer_, token_id);
}

void TextOffset::add(std::string_view token_bytes) {
  std::string text;
  stream_.push(token_bytes, text);
  characters_ += static_cast<int64_t>(count_code_points(text));
}

Json completion_logprobs_json(std::span<const ShownToken> tokens,
                              const TokenSpelling& spelling,
                              TextOffset& text_offset) {
  Json offsets = Json::array();
  Json logprobs = Json::array();
  Json texts = Json::array();
  Json tops = Json::array();
  for (const ShownToken& token : tokens) {
    offsets.push_back(text_offset.characters());
    text_offset.add(spelling.bytes(token.token_id));
    texts.push_back(spelling.with_bytes(token.token_id));
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
