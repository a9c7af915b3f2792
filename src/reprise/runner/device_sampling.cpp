#include "reprise/runner/device_sampling.h"

#include <cmath>
#include <limits>
#include <utility>

namespace reprise::runner {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool is_covered(const sampling::SamplingParams& params) {
  return params.allowed_token_ids.empty() && params.bad_words_token_ids.empty();
}

/// Log-probabilities are those of the model's own logits, and the device changes logits in place.
bool covers_logprobs(const sampling::SamplingInput& input) {
  const sampling::SamplingParams& params = *input.params;
  return *params.logprobs <= kernels::kMostTopLogits && params.logprob_token_ids.empty() &&
         params.logit_bias.empty() && input.suppressed_token_ids.empty() && !params.has_penalties();
}

void take_logprobs(const kernels::RowLogprobs& row, sampling::SampledToken& sampled) {
  const double log_normaliser = double{row.max} + std::log(row.sum);
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_normaliser); };
  sampled.logprob = {
      .token_id = sampled.token_id, .logprob = logprob(row.chosen), .rank = row.rank};
  for (int i = 0; i < row.num_top; ++i) {
    sampled.top_logprobs.push_back(
        {.token_id = row.top[i].id, .logprob = logprob(row.top[i].logit), .rank = i + 1});
  }
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

DeviceSampling::DeviceSampling(kernels::RowSampler* sampler)
    : sampler_(sampler), count_slots_(sampler == nullptr ? 0 : sampler->num_count_slots()) {
  if (sampler_ == nullptr) return;
  rows_.reserve(static_cast<size_t>(sampler_->max_rows()));
  adjustments_.reserve(static_cast<size_t>(sampler_->max_adjustments()));
}

void DeviceSampling::begin() noexcept {
  rows_.clear();
  adjustments_.clear();
  count_slots_.begin_step();
}

bool DeviceSampling::add(const Row& row) {
  const sampling::SamplingInput& input = row.input;
  const sampling::SamplingParams& params = *input.params;
  if (sampler_ == nullptr || row.has_constraint || !is_covered(params)) return false;
  if (params.logprobs && !covers_logprobs(input)) return false;
  if (rows_.size() == static_cast<size_t>(sampler_->max_rows())) return false;
  const size_t first_adjustment = adjustments_.size();
  if (!add_adjustments(input)) return false;
  std::optional<int32_t> slot = kernels::kNoCountSlot;
  if (params.has_penalties()) slot = count_slot(row);
  if (!slot) {
    adjustments_.resize(first_adjustment);
    return false;
  }
  rows_.push_back({.seed = input.seed,
                   .position = input.output_token_ids.size(),
                   .min_p_edge = params.min_p > 0 ? std::log(static_cast<double>(params.min_p)) *
                                                        params.temperature
                                                  : -std::numeric_limits<double>::infinity(),
                   .temperature = params.is_greedy() ? 0 : params.temperature,
                   .top_p = params.top_p,
                   .top_k = params.top_k,
                   .logits_row = row.logits_row,
                   .first_adjustment = static_cast<int32_t>(first_adjustment),
                   .num_adjustments = static_cast<int32_t>(adjustments_.size() - first_adjustment),
                   .repetition_penalty = params.repetition_penalty,
                   .frequency_penalty = params.frequency_penalty,
                   .presence_penalty = params.presence_penalty,
                   .count_slot = *slot,
                   .num_logprobs = params.logprobs.value_or(kernels::kNoLogprobs)});
  return true;
}

/// The slot that counts the row's tokens, or nothing if the device cannot count them.
std::optional<int32_t> DeviceSampling::count_slot(const Row& row) {
  const std::span<const int32_t> output = row.input.output_token_ids;
  if (!row.is_alone) return std::nullopt;
  if (const std::optional<int32_t> slot = count_slots_.use(row.request, output.size())) return slot;
  if (!row.is_known) return std::nullopt;
  const std::optional<int32_t> slot = count_slots_.take(row.request, output.size());
  if (slot) sampler_->count_tokens(*slot, row.input.prompt_token_ids, output);
  return slot;
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
  const size_t index = next_++;
  const int32_t token = tokens_[index];
  sampled.status = status_of(token);
  sampled.token_id = token < 0 ? -1 : token;
  sampled.ends_answer = false;
  sampled.row_digest = 0;
  sampled.logprob = {};
  sampled.top_logprobs.clear();
  const std::span<const kernels::RowLogprobs> logprobs = sampler_->logprobs();
  if (!logprobs.empty() && logprobs[index].num_top >= 0) take_logprobs(logprobs[index], sampled);
}

}  // namespace reprise::runner
