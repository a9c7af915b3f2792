#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/sampling/logprobs.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::server {

/// The spelling of tokens in an answer: the text of the token alone, or "token_id:5".
class TokenSpelling {
 public:
  enum class Form : uint8_t { text, id };
  /// `tokenizer` must outlive this.
  TokenSpelling(const tokenizer::Tokenizer& tokenizer, Form form)
      : tokenizer_(&tokenizer), form_(form) {}

  [[nodiscard]] std::string operator()(int32_t token_id) const;

 private:
  const tokenizer::Tokenizer* tokenizer_;
  Form form_;
};

/// One token of an answer with its log-probabilities; the first token of a prompt has none.
struct ShownToken {
  int32_t token_id = 0;
  const sampling::PositionLogprobs* logprobs = nullptr;
};

/// `logprobs` of a choice of a completion: {"text_offset", "token_logprobs", "tokens",
/// "top_logprobs"}. On entry `text_offset` is the position of the first token, in characters; on
/// return it is the position of the token after the last one. Two tokens of the same spelling share
/// an entry of "top_logprobs", which has the value of the likelier one.
[[nodiscard]] Json completion_logprobs_json(std::span<const ShownToken> tokens,
                                            const TokenSpelling& spelling,
                                            int64_t& text_offset);

/// `logprobs` of a choice of a chat: {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
[[nodiscard]] Json chat_logprobs_json(std::span<const ShownToken> tokens,
                                      const TokenSpelling& spelling);

/// `prompt_logprobs`: null for the first token, then {"5": {"logprob", "rank", "decoded_token"}}.
[[nodiscard]] Json prompt_logprobs_json(std::span<const sampling::PositionLogprobs> logprobs,
                                        const TokenSpelling& spelling);

}  // namespace reprise::server
