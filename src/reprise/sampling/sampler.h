#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/sampling/logit_adjuster.h"
#include "reprise/sampling/logprobs.h"
#include "reprise/sampling/row_passes.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/sampling/token_filters.h"

namespace reprise::sampling {

/// Input of the sampler for one row. The sampler borrows everything for the call.
struct SamplingInput {
  std::span<const float> logits;  // [vocab_size]; -inf is allowed and means "never"
  const SamplingParams* params = nullptr;
  std::span<const int32_t> prompt_token_ids;
  /// Tokens generated so far. Their number is the position that selects the random number, so a
  /// request that was preempted and recomputed gets the same tokens as without preemption.
  std::span<const int32_t> output_token_ids;
  /// Tokens that must not be chosen in this step: EOS and stop ids while the output is shorter than
  /// min_tokens.
  std::span<const int32_t> suppressed_token_ids;
  /// Bit i % 32 of word i / 32 allows token i. Ids beyond the span are not allowed. An empty span
  /// allows every token.
  std::span<const uint32_t> allowed_mask;
  uint64_t seed = 0;  // params->seed, or the result of `derive_seed`
};

enum class SamplingStatus : uint8_t {
  ok,
  non_finite_logits,  // a logit is NaN or +inf: the model computed wrong numbers
  no_allowed_token,   // every token was masked out
  // Set by the caller of the sampler, for answers with a constraint.
  postponed,  // the answer gets its token in a later step
  refused,    // the constraint exceeds its limits; see SampledToken::problem
  failed,     // the constraint contradicts itself, or threw; see SampledToken::problem
  // Set by the verification of drafts: the row comes after a draft that was not accepted.
  not_reached,
};
[[nodiscard]] std::string_view to_string(SamplingStatus status);

/// The result for one row. Keep the object between steps: `top_logprobs` reuses its storage.
struct SampledToken {
  int32_t token_id = -1;  // in [0, vocab_size) when status is ok, else -1
  SamplingStatus status = SamplingStatus::ok;
  /// Log-probability of token_id under the raw logits, before any adjustment (vLLM's default). Only
  /// set when params->logprobs is set.
  TokenLogprob logprob;
  std::vector<TokenLogprob> top_logprobs;  // most likely first; size min(*logprobs, vocab_size)
  /// True if the answer is complete with this token. The sampler sets false; the caller that passes
  /// allowed_mask sets true.
  bool ends_answer = false;
  /// digest_of_row() of the logits that the token was chosen from. 0: none was made, because a
  /// device sampled the row.
  uint64_t row_digest = 0;
  std::string problem;  // a sentence; empty unless status is `refused` or `failed`
};

/// Chooses the next token of one row of logits.
///
/// Order of operations (vLLM V1): raw logprobs, allowed_token_ids, suppressed ids, logit_bias,
/// penalties. Then the greedy choice, which is the first maximal index; or temperature, min_p,
/// top_k, top_p and a draw. The draw inverts the CDF over the kept tokens in ascending id order,
/// with one Philox4x32-10 number for (seed, position). A row's result therefore does not depend on
/// the other rows of the batch, on their order, or on how often rows are sampled. Among equal
/// logits at the edge of top_k or top_p the lower ids stay, so exactly k tokens stay and top_k = 1
/// equals greedy (vLLM keeps all tokens with equal logits).
///
/// The constructor allocates all scratch memory; later only a caller's `top_logprobs` can grow. Not
/// thread-safe: each thread needs its own. Logits that are not finite give a status, never an
/// exception.
class Sampler {
 public:
  /// Borrows the passes. Two sets of passes may draw different tokens where a random number falls
  /// on the border between two tokens, to within rounding.
  explicit Sampler(int max_vocab_size, const RowPasses& passes = plain_row_passes())
      : passes_(&passes),
        adjuster_(max_vocab_size),
        filter_(max_vocab_size, passes),
        maxima_(num_parts(static_cast<size_t>(max_vocab_size))),
        max_vocab_size_(max_vocab_size) {}

  /// \pre params validated; 1 <= logits.size() <= max_vocab_size; token ids < logits.size().
  void sample(const SamplingInput& input, SampledToken& result);

 private:
  [[nodiscard]] SamplingStatus examine(std::span<const float> logits, LogitRow& row);
  [[nodiscard]] int32_t choose_randomly(const LogitRow& row, const SamplingInput& input);

  const RowPasses* passes_;
  LogitAdjuster adjuster_;
  TokenFilter filter_;
  std::vector<float> maxima_;  // of the parts of the row
  int max_vocab_size_;
};

/// The seed of a request without its own seed. It depends only on the engine's seed and the
/// request's number.
[[nodiscard]] uint64_t derive_seed(uint64_t engine_seed, uint64_t request_number) noexcept;

}  // namespace reprise::sampling
