#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/server/generation_request.h"

namespace reprise::server {

/// From the prompts of a request to token ids that the model can take. Constant, so thread-safe.
class PromptEncoder {
 public:
  /// `engine` must outlive this.
  explicit PromptEncoder(const api::AsyncEngine& engine);

  /// One list per prompt. \throws ApiError 400 for prompts that are empty, too long, or hold ids
  /// that are no token; InvalidArgument for what the chat template refuses
  [[nodiscard]] std::vector<std::vector<int32_t>> encode(const GenerationRequest& request) const;

 private:
  [[nodiscard]] std::vector<int32_t> encode_text(const std::string& text,
                                                 bool add_special_tokens) const;
  void check_length(size_t num_prompt_tokens, const sampling::SamplingParams& params) const;

  const api::AsyncEngine* engine_;
  int64_t max_model_len_;
  size_t max_token_bytes_;  // of the longest token
};

}  // namespace reprise::server
