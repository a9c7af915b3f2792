#include "reprise/runner/most_likely_tokens.h"

#include <algorithm>

#include "reprise/runner/model_runner.h"

namespace reprise::runner {

MostLikelyTokens::MostLikelyTokens(ModelRunner& runner,
                                   kernels::RowSampler* sampler,
                                   int32_t max_rows)
    : runner_(&runner), sampler_(sampler) {
  tokens_.reserve(static_cast<size_t>(max_rows));
  for (int32_t row = 0; row < max_rows; ++row) rows_.push_back({.logits_row = row});
}

std::span<const int32_t> MostLikelyTokens::choose(const StepResult& result, int32_t count) {
  tokens_.clear();
  if (sampler_ != nullptr) {
    sampler_->launch(result.logits, std::span(rows_).first(static_cast<size_t>(count)), {});
    // A row without a token has a negative one.
    for (const int32_t token : sampler_->wait()) tokens_.push_back(std::max(token, 0));
    return tokens_;
  }
  runner_->wait();
  for (int32_t row = 0; row < count; ++row) {
    const std::span<const float> logits = runner_->logits_row(result, row);
    tokens_.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  return tokens_;
}

}  // namespace reprise::runner
