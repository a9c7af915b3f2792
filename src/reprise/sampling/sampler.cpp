#include "reprise/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "reprise/base/assert.h"
#include "reprise/base/philox.h"

namespace reprise::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct RowSummary {
  float max = -kInfinity;
  SamplingStatus status = SamplingStatus::ok;
};

RowSummary summarise(std::span<const float> logits) {
  // The lanes are independent, so that the compiler can use vector registers.
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> max;
  max.fill(-kInfinity);
  std::array<uint32_t, kLanes> num_nan{};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    const float* block = logits.data() + i;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      max[lane] = block[lane] > max[lane] ? block[lane] : max[lane];
      num_nan[lane] += static_cast<uint32_t>(block[lane] != block[lane]);
    }
  }
  RowSummary summary;
  bool has_nan = false;
  for (; i < logits.size(); ++i) {
    summary.max = std::max(summary.max, logits[i]);
    has_nan |= std::isnan(logits[i]);
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    summary.max = std::max(summary.max, max[lane]);
    has_nan |= num_nan[lane] != 0;
  }
  if (has_nan || summary.max == kInfinity) {
    summary.status = SamplingStatus::non_finite_logits;
  } else if (summary.max == -kInfinity) {
    summary.status = SamplingStatus::no_allowed_token;
  }
  return summary;
}

int32_t first_index_of(float value, std::span<const float> row) {
  return static_cast<int32_t>(std::find(row.begin(), row.end(), value) - row.begin());
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
                 "a row of {} logits, expected 1..{} and parameters",
                 input.logits.size(),
                 max_vocab_size_);
  result.token_id = -1;
  result.ends_answer = false;
  result.problem.clear();
  result.logprob = {};
  result.top_logprobs.clear();
  RowSummary summary = summarise(input.logits);
  result.status = summary.status;
  if (result.status != SamplingStatus::ok) return;

  const SamplingParams& params = *input.params;
  const std::span<const float> adjusted = adjuster_.apply(input.logits,
                                                          params,
                                                          input.suppressed_token_ids,
                                                          input.allowed_mask,
                                                          input.prompt_token_ids,
                                                          input.output_token_ids);
  if (adjusted.data() != input.logits.data()) {
    summary = summarise(adjusted);
    result.status = summary.status;
    if (result.status != SamplingStatus::ok) return;
  }
  result.token_id =
      params.is_greedy() ? first_index_of(summary.max, adjusted) : choose_randomly(adjusted, input);
  if (params.logprobs) {
    const double log_normaliser = log_sum_exp(input.logits);
    result.logprob = token_logprob(input.logits, log_normaliser, result.token_id);
    top_logprobs(input.logits, log_normaliser, *params.logprobs, result.top_logprobs);
  }
}

int32_t Sampler::choose_randomly(std::span<const float> logits, const SamplingInput& input) {
  const SamplingParams& params = *input.params;
  const std::span<const Candidate> candidates = filter_.apply(logits,
                                                              {.temperature = params.temperature,
                                                               .min_p = params.min_p,
                                                               .top_k = params.top_k,
                                                               .top_p = params.top_p});
  const std::array<uint32_t, 4> bits =
      philox_block(input.seed, input.output_token_ids.size(), kTokenStream);
  return draw(candidates, uniform_from_bits(bits[0], bits[1]));
}

uint64_t derive_seed(uint64_t engine_seed, uint64_t request_number) noexcept {
  const std::array<uint32_t, 4> bits = philox_block(engine_seed, request_number, kSeedStream);
  return (static_cast<uint64_t>(bits[0]) << 32) | bits[1];
}

}  // namespace reprise::sampling
