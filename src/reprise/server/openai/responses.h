#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/sampling/sampler.h"

namespace reprise::server {

/// The members that every object of one answer begins with.
struct AnswerHead {
  bool is_chat = false;
  std::string id;       // "cmpl-...", "chatcmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string role = "assistant";  // in a chat
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  std::optional<int64_t> cached_tokens;     // of the prompts; unset: not reported
  std::optional<int64_t> reasoning_tokens;  // of the answers; unset: unknown
  std::optional<int64_t> decode_ns;         // from the first token to the last; unset: not reported
};

/// One finished answer, or the part of it that is sent next.
struct ChoicePart {
  int index = 0;
  std::string text;
  Json more = Json::object();  // members of the message or delta beside its content
  std::vector<int32_t> token_ids;
  std::vector<int32_t> prompt_token_ids;  // of this choice's prompt
  std::vector<sampling::PositionLogprobs> logprobs;
  std::vector<sampling::PositionLogprobs> prompt_logprobs;

  // Members that decide how the part is shown. Null members are left out, except logprobs.
  std::string_view finish_reason;                      // empty: not finished
  const scheduler::StopReason* stop_reason = nullptr;  // of a finished choice; null: EOS or length
  Json shown_logprobs = nullptr;
  Json shown_prompt_logprobs = nullptr;
  bool shows_token_ids = false;
  /// A chat has one prompt, so its ids stand beside the choices.
  bool shows_prompt_token_ids = false;
};

[[nodiscard]] Json to_json(const Usage& usage);
/// {"object": "text_completion" or "chat.completion", ...}
[[nodiscard]] Json answer_json(const AnswerHead& head,
                               const std::vector<ChoicePart>& choices,
                               const Usage& usage);

// Chunks of a stream; each goes through sse_event().
[[nodiscard]] Json role_chunk(const AnswerHead& head, int index);
[[nodiscard]] Json text_chunk(const AnswerHead& head, const ChoicePart& choice);
[[nodiscard]] Json usage_chunk(const AnswerHead& head, const Usage& usage);

/// "data: {...}\n\n". JSON escapes line ends, so an event needs only one line.
[[nodiscard]] std::string sse_event(const Json& json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
/// A comment, which clients of event streams ignore; the same as vLLM's.
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

/// The objects of GET /v1/models: the model under each of its names, and its adapters. `parent`:
/// the model that an adapter belongs to; empty: none.
[[nodiscard]] Json model_json(std::string_view name,
                              std::string_view root,
                              std::string_view parent,
                              int64_t created,
                              int32_t max_model_len);

}  // namespace reprise::server
