#include "reprise/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "reprise/base/assert.h"
#include "reprise/base/philox.h"
#include "reprise/sampling/row_digest.h"

namespace reprise::sampling {
namespace {

int32_t first_of_largest(const LogitRow& row) {
  const auto part = std::find(row.maxima.begin(), row.maxima.end(), row.max);
  const auto first = static_cast<size_t>(part - row.maxima.begin()) * kPartSize;
  const std::span<const float> logits = row.logits.subspan(first);
  const auto found = std::find(logits.begin(), logits.end(), row.max);
  return static_cast<int32_t>(first + static_cast<size_t>(found - logits.begin()));
}

}  // namespace

std::string_view to_string(SamplingStatus status) {
  switch (status) {
    case SamplingStatus::ok:
      return "ok";
    case SamplingStatus::non_finite_logits:
      return "the model produced NaN or infinite logits";
    case SamplingStatus::no_allowed_token:
      return "no token is allowed: all logits are -inf";
    case SamplingStatus::postponed:
      return "postponed";
    case SamplingStatus::refused:
      return "the constraint on the answer has reached its limits";
    case SamplingStatus::failed:
      return "the constraint on the answer failed";
    case SamplingStatus::not_reached:
      return "the draft token before it was not accepted";
  }
  return "unknown";
}

void Sampler::sample(const SamplingInput& input, SampledToken& result) {
  REPRISE_ASSERT(input.params != nullptr && !input.logits.empty() &&
                     input.logits.size() <= static_cast<size_t>(max_vocab_size_),
                 "a row of {} logits; expected 1..{} logits, and sampling parameters",
                 input.logits.size(),
                 max_vocab_size_);
  result.token_id = -1;
  result.ends_answer = false;
  result.row_digest = 0;
  result.problem.clear();
  result.logprob = {};
  result.top_logprobs.clear();
  LogitRow row;
  result.status = examine(input.logits, row);
  if (result.status != SamplingStatus::ok) return;
  const uint64_t maxima_digest = digest_of_floats(row.maxima);

  const SamplingParams& params = *input.params;
  const std::span<const float> adjusted = adjuster_.apply(input.logits,
                                                          params,
                                                          input.suppressed_token_ids,
                                                          input.allowed_mask,
                                                          input.prompt_token_ids,
                                                          input.output_token_ids);
  if (adjusted.data() != input.logits.data()) {
    result.status = examine(adjusted, row);
    if (result.status != SamplingStatus::ok) return;
  }
  result.token_id = params.is_greedy() ? first_of_largest(row) : choose_randomly(row, input);
  result.row_digest =
      digest_of_row(maxima_digest, input.logits[static_cast<size_t>(result.token_id)]);
  if (params.logprobs) {
    const double log_normaliser = log_sum_exp(input.logits);
    result.logprob = token_logprob(input.logits, log_normaliser, result.token_id);
    if (params.logprob_token_ids.empty()) {
      top_logprobs(input.logits, log_normaliser, *params.logprobs, result.top_logprobs);
    } else {
      logprobs_of(input.logits, log_normaliser, params.logprob_token_ids, result.top_logprobs);
    }
  }
}

/// Fills in `row`, which refers to `logits` and to maxima_.
SamplingStatus Sampler::examine(std::span<const float> logits, LogitRow& row) {
  const auto maxima = std::span(maxima_).first(num_parts(logits.size()));
  if (!passes_->find_maxima(logits, maxima)) return SamplingStatus::non_finite_logits;
  row = {
      .logits = logits, .maxima = maxima, .max = *std::max_element(maxima.begin(), maxima.end())};
  return row.max == kNever ? SamplingStatus::no_allowed_token : SamplingStatus::ok;
}

int32_t Sampler::choose_randomly(const LogitRow& row, const SamplingInput& input) {
  const SamplingParams& params = *input.params;
  const Candidate edge = filter_.find_edge(row,
                                           {.temperature = params.temperature,
                                            .min_p = params.min_p,
                                            .top_k = params.top_k,
                                            .top_p = params.top_p});
  const std::array<uint32_t, 4> bits =
      philox_block(input.seed, input.output_token_ids.size(), kTokenStream);
  return filter_.draw(row, params.temperature, edge, uniform_from_bits(bits[0], bits[1]));
}

uint64_t derive_seed(uint64_t engine_seed, uint64_t request_number) noexcept {
  const std::array<uint32_t, 4> bits = philox_block(engine_seed, request_number, kSeedStream);
  return (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
}

}  // namespace reprise::sampling
