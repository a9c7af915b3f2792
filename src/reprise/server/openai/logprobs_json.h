#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/sampling/logprobs.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

/// How tokens are written in an answer: as their text, or as "token_id:5".
class TokenSpelling {
 public:
  enum class Form : uint8_t { text, id };
  /// `tokenizer` must outlive this.
  TokenSpelling(const tokenizer::Tokenizer& tokenizer, Form form)
      : tokenizer_(&tokenizer), form_(form) {}

  /// The token as text, in which bytes that are not whole characters become U+FFFD.
  [[nodiscard]] std::string operator()(int32_t token_id) const;
  /// The token as OpenAI's completions write parts of characters: "bytes:\xe2\x82".
  [[nodiscard]] std::string with_bytes(int32_t token_id) const;
  /// The bytes that the token adds to the text.
  [[nodiscard]] std::string bytes(int32_t token_id) const;

 private:
  const tokenizer::Tokenizer* tokenizer_;
  Form form_;
};

/// One token of an answer with its log-probabilities; the first token of a prompt has none.
struct ShownToken {
  int32_t token_id = 0;
  const sampling::PositionLogprobs* logprobs = nullptr;
};

/// Where the next token begins in a text, in characters. A token that is part of a character begins
/// where the character begins.
class TextOffset {
 public:
  [[nodiscard]] int64_t characters() const noexcept { return characters_; }
  void add(std::string_view token_bytes);

 private:
  Utf8Stream stream_;  // holds an incomplete character
  int64_t characters_ = 0;
};

/// `logprobs` of a choice of a completion: {"text_offset", "token_logprobs", "tokens",
/// "top_logprobs"}. `text_offset` is the offset of the first token; afterwards it is the offset
/// after the last token. Two tokens with the same text share an entry of "top_logprobs", with the
/// value of the likelier one.
[[nodiscard]] Json completion_logprobs_json(std::span<const ShownToken> tokens,
                                            const TokenSpelling& spelling,
                                            TextOffset& text_offset);

/// `logprobs` of a choice of a chat: {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
/// "bytes" are the token's bytes, which may be part of a character.
[[nodiscard]] Json chat_logprobs_json(std::span<const ShownToken> tokens,
                                      const TokenSpelling& spelling);

/// `prompt_logprobs`: null for the first token, then {"5": {"logprob", "rank", "decoded_token"}}.
[[nodiscard]] Json prompt_logprobs_json(std::span<const sampling::PositionLogprobs> logprobs,
                                        const TokenSpelling& spelling);

}  // namespace reprise::server
