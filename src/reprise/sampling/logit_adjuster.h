#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/sampling/sampling_params.h"

namespace reprise::sampling {

/// Changes a row of logits before the greedy choice and the filters, in vLLM's order: allowed ids,
/// suppressed ids, a mask, bad words, logit bias, repetition penalty (over prompt and output;
/// divides positive logits, multiplies others), frequency and presence penalty (over output). The
/// constructor allocates all scratch memory. Not thread-safe.
class LogitAdjuster {
 public:
  explicit LogitAdjuster(int max_vocab_size);

  /// Returns the adjusted row: a view of this object's memory until the next call, or `logits`
  /// itself if these parameters change nothing. \pre all token ids index logits.
  std::span<const float> apply(std::span<const float> logits,  // [vocab_size]
                               const SamplingParams& params,
                               std::span<const int32_t> suppressed_token_ids,
                               std::span<const uint32_t> allowed_mask,
                               std::span<const int32_t> prompt_token_ids,
                               std::span<const int32_t> output_token_ids);

 private:
  void copy_row(std::span<const float> logits, std::span<const int32_t> allowed_token_ids);
  void apply_bad_words(const SamplingParams& params, std::span<const int32_t> output_token_ids);
  void apply_penalties(const SamplingParams& params,
                       std::span<const int32_t> prompt_token_ids,
                       std::span<const int32_t> output_token_ids);
  void count_token(int32_t token_id, int occurrences);

  /// How often a token occurred. `is_seen` also covers prompt tokens, whose count stays 0.
  struct Occurrence {
    int32_t in_output = 0;
    bool is_seen = false;
  };

  std::vector<float> row_;
  std::vector<Occurrence> occurrences_;  // by token id; reset after each call
  std::vector<int32_t> seen_;            // ids with is_seen, each once; the reset clears only these
};

}  // namespace reprise::sampling
