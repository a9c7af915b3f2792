#include "reprise/runner/device_sampling.h"

#include <cmath>
#include <limits>
#include <utility>

namespace reprise::runner {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool is_covered(const sampling::SamplingParams& params) {
  return !params.logprobs && params.allowed_token_ids.empty() &&
         params.bad_words_token_ids.empty() && params.repetition_penalty == 1 &&
         params.presence_penalty == 0 && params.frequency_penalty == 0;
}

sampling::SamplingStatus status_of(int32_t token) {
  switch (token) {
    case kernels::kNonFiniteLogits:
      return sampling::SamplingStatus::non_finite_logits;
    case kernels::kNoAllowedToken:
      return sampling::SamplingStatus::no_allowed_token;
    default:
      return sampling::SamplingStatus::ok;
  }
}

}  // namespace

DeviceSampling::DeviceSampling(kernels::RowSampler* sampler) : sampler_(sampler) {
  if (sampler_ == nullptr) return;
  rows_.reserve(static_cast<size_t>(sampler_->max_rows()));
  adjustments_.reserve(static_cast<size_t>(sampler_->max_adjustments()));
}

void DeviceSampling::begin() noexcept {
  rows_.clear();
  adjustments_.clear();
}

bool DeviceSampling::add(const sampling::SamplingInput& input,
                         HasConstraint has_constraint,
                         int32_t logits_row) {
  const sampling::SamplingParams& params = *input.params;
  if (sampler_ == nullptr || has_constraint == HasConstraint::yes || !is_covered(params))
    return false;
  if (rows_.size() == static_cast<size_t>(sampler_->max_rows())) return false;
  const size_t first_adjustment = adjustments_.size();
  if (!add_adjustments(input)) return false;
  rows_.push_back(
      {.seed = input.seed,
       .position = input.output_token_ids.size(),
       .min_p_edge = params.min_p > 0
                         ? std::log(static_cast<double>(params.min_p)) * params.temperature
                         : -std::numeric_limits<double>::infinity(),
       .temperature = params.is_greedy() ? 0 : params.temperature,
       .top_p = params.top_p,
       .top_k = params.top_k,
       .logits_row = logits_row,
       .first_adjustment = static_cast<int32_t>(first_adjustment),
       .num_adjustments = static_cast<int32_t>(adjustments_.size() - first_adjustment)});
  return true;
}

bool DeviceSampling::add_adjustments(const sampling::SamplingInput& input) {
  const auto& bias = input.params->logit_bias;
  const size_t wanted = adjustments_.size() + input.suppressed_token_ids.size() + bias.size();
  if (std::cmp_greater(wanted, sampler_->max_adjustments())) return false;
  for (const int32_t id : input.suppressed_token_ids) adjustments_.push_back({id, kNever});
  for (const auto& [id, value] : bias) adjustments_.push_back({id, value});
  return true;
}

void DeviceSampling::launch(const Tensor& logits) {
  if (!empty()) sampler_->launch(logits, rows_, adjustments_);
}

void DeviceSampling::wait() {
  tokens_ = sampler_->wait();
  next_ = 0;
}

void DeviceSampling::take(sampling::SampledToken& sampled) {
  const int32_t token = tokens_[next_++];
  sampled.status = status_of(token);
  sampled.token_id = token < 0 ? -1 : token;
  sampled.ends_answer = false;
  sampled.row_digest = 0;
  sampled.logprob = {};
  sampled.top_logprobs.clear();
}

}  // namespace reprise::runner
