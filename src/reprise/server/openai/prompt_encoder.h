#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/server/openai/generation_request.h"

namespace reprise::server {

/// One prompt in the form that the model reads.
struct EncodedPrompt {
  std::vector<int32_t> token_ids;
  int32_t second_text_begin = scheduler::kNoSecondText;
  // Text that a completion with `echo`, or a chat's `prompt_text`, repeats; otherwise empty.
  std::string text;
};

/// Converts the prompts of a request to token ids that the model accepts. Constant, so thread-safe.
class PromptEncoder {
 public:
  /// `engine` must outlive this.
  explicit PromptEncoder(const api::AsyncEngine& engine);

  /// Returns one list per prompt. \throws ApiError 400 for prompts that are empty, too long, or
  /// contain invalid token ids; InvalidArgument when the chat template refuses the messages;
  /// Abandoned from `work`
  [[nodiscard]] std::vector<EncodedPrompt> encode(const GenerationRequest& request,
                                                  const WorkLimit& work = {}) const;

 private:
  [[nodiscard]] std::vector<int32_t> encode_text(std::string_view text,
                                                 const GenerationRequest& request,
                                                 const WorkLimit& work,
                                                 std::span<const size_t> plain_at = {}) const;
  [[nodiscard]] EncodedPrompt encode_prompt(const Prompt& prompt,
                                            const GenerationRequest& request,
                                            const WorkLimit& work) const;
  /// The pairs of texts that a cross-encoder compares.
  [[nodiscard]] std::vector<EncodedPrompt> encode_pairs(const GenerationRequest& request,
                                                        const WorkLimit& work) const;
  [[nodiscard]] EncodedPrompt encode_pair(const std::string& first,
                                          const std::string& second,
                                          const GenerationRequest& request,
                                          const WorkLimit& work) const;
  void refuse_long_text(std::string_view text, const GenerationRequest& request) const;
  bool truncate(std::vector<int32_t>& token_ids, const GenerationRequest& request) const;
  void check_length(size_t num_prompt_tokens, int64_t num_output) const;

  const api::AsyncEngine* engine_;
  int64_t max_model_len_;
  int32_t num_decoder_prompt_tokens_;  // 0: no encoder reads the prompts
  size_t max_token_bytes_;             // of the longest token
};

}  // namespace reprise::server
