#include "reprise/server/openai/request_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reprise/base/json.h"
#include "reprise/lora/lora_adapter.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/generation_request.h"

namespace reprise::server {
namespace {

template <class T>
std::string or_none(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "None";
}

/// The start of `text`, at most `length` bytes, never cut inside a character.
std::string_view shorten(std::string_view text, int64_t length) {
  if (length < 0 || text.size() <= static_cast<size_t>(length)) return text;
  auto end = static_cast<size_t>(length);
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) --end;
  return text.substr(0, end);
}

std::span<const int32_t> shorten(std::span<const int32_t> ids, int64_t length) {
  return ids.first(length < 0 ? ids.size() : std::min(ids.size(), static_cast<size_t>(length)));
}

std::string describe(const Prompt& prompt, int64_t max_log_len) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    // quoted and escaped, so that the text stays on one line
    return dump(Json(shorten(*text, max_log_len)));
  }
  const auto& ids = std::get<std::vector<int32_t>>(prompt);
  return fmt::format("[{}]", fmt::join(shorten(ids, max_log_len), ", "));
}

}  // namespace

std::string request_log_line(const RequestLogOptions& options,
                             std::string_view id,
                             const GenerationRequest& request) {
  const sampling::SamplingParams& p = request.params;
  std::string line = fmt::format(
      "Received request {}: params: SamplingParams(n={}, presence_penalty={}, "
      "frequency_penalty={}, "
      "repetition_penalty={}, temperature={}, top_p={}, top_k={}, min_p={}, seed={}, stop=<{} "
      "strings>, ignore_eos={}, max_tokens={}, min_tokens={}, logprobs={}), lora_request: {}.",
      id,
      request.n,
      p.presence_penalty,
      p.frequency_penalty,
      p.repetition_penalty,
      p.temperature,
      p.top_p,
      p.top_k,
      p.min_p,
      or_none(p.seed),
      p.stop.size(),
      p.ignore_eos ? "True" : "False",
      or_none(p.max_tokens),
      p.min_tokens,
      or_none(p.logprobs),
      request.options.adapter == nullptr ? "None" : request.options.adapter->name());
  if (!options.with_prompts) return line;
  if (request.is_chat) {
    line += fmt::format(" messages: {}", shorten(dump(request.messages), options.max_log_len));
  }
  for (const Prompt& prompt : request.prompts) {
    line += fmt::format(" prompt: {}", describe(prompt, options.max_log_len));
  }
  return line;
}

void LoggedOutput::add(const RequestLogOptions& options,
                       std::string_view text,
                       std::span<const int32_t> ids) {
  const auto room = [&options](size_t used) {
    return options.max_log_len < 0
               ? -1
               : std::max<int64_t>(0, options.max_log_len - static_cast<int64_t>(used));
  };
  text_ += shorten(text, room(text_.size()));
  const std::span<const int32_t> kept = shorten(ids, room(token_ids_.size()));
  token_ids_.insert(token_ids_.end(), kept.begin(), kept.end());
}

std::string LoggedOutput::line(std::string_view id,
                               int choice,
                               std::string_view finish_reason) const {
  return fmt::format(
      "Generated response {}: index: {}, output: {}, output_token_ids: [{}], finish_reason: {}",
      id,
      choice,
      dump(Json(text_)),
      fmt::join(token_ids_, ", "),
      finish_reason);
}

}  // namespace reprise::server
