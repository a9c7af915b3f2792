#include "reprise/sampling/logit_adjuster.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "reprise/sampling/token_filters.h"

namespace reprise::sampling {
namespace {

void apply_mask(std::span<const uint32_t> allowed, std::span<float> row) {
  for (size_t i = 0; i < row.size(); ++i) {
    const uint32_t word = i / 32 < allowed.size() ? allowed[i / 32] : 0;
    if (((word >> (i % 32)) & 1U) == 0) row[i] = kNever;
  }
}

}  // namespace

LogitAdjuster::LogitAdjuster(int max_vocab_size) {
  const auto size = static_cast<size_t>(max_vocab_size);
  row_.resize(size);
  occurrences_.resize(size);
  seen_.reserve(size);
}

std::span<const float> LogitAdjuster::apply(std::span<const float> logits,
                                            const SamplingParams& params,
                                            std::span<const int32_t> suppressed_token_ids,
                                            std::span<const uint32_t> allowed_mask,
                                            std::span<const int32_t> prompt_token_ids,
                                            std::span<const int32_t> output_token_ids) {
  const bool penalises = params.has_penalties();
  if (params.allowed_token_ids.empty() && suppressed_token_ids.empty() && allowed_mask.empty() &&
      params.bad_words_token_ids.empty() && params.logit_bias.empty() && !penalises) {
    return logits;
  }
  copy_row(logits, params.allowed_token_ids);
  for (const int32_t id : suppressed_token_ids) row_[static_cast<size_t>(id)] = kNever;
  if (!allowed_mask.empty()) apply_mask(allowed_mask, std::span(row_).first(logits.size()));
  apply_bad_words(params, output_token_ids);
  for (const auto& [id, bias] : params.logit_bias) row_[static_cast<size_t>(id)] += bias;
  if (penalises) apply_penalties(params, prompt_token_ids, output_token_ids);
  return std::span<const float>(row_).first(logits.size());
}

void LogitAdjuster::copy_row(std::span<const float> logits,
                             std::span<const int32_t> allowed_token_ids) {
  if (allowed_token_ids.empty()) {
    std::copy(logits.begin(), logits.end(), row_.begin());
    return;
  }
  std::fill_n(row_.begin(), logits.size(), kNever);
  for (const int32_t id : allowed_token_ids) {
    row_[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
  }
}

void LogitAdjuster::apply_bad_words(const SamplingParams& params,
                                    std::span<const int32_t> output_token_ids) {
  for (const std::vector<int32_t>& word : params.bad_words_token_ids) {
    if (word.empty() || word.size() - 1 > output_token_ids.size()) continue;
    const auto begun = std::span(word).first(word.size() - 1);
    if (std::equal(begun.begin(), begun.end(), output_token_ids.end() - std::ssize(begun))) {
      row_[static_cast<size_t>(word.back())] = kNever;
    }
  }
}

void LogitAdjuster::apply_penalties(const SamplingParams& params,
                                    std::span<const int32_t> prompt_token_ids,
                                    std::span<const int32_t> output_token_ids) {
  if (params.repetition_penalty != 1.0F) {
    for (const int32_t id : prompt_token_ids) count_token(id, 0);
  }
  for (const int32_t id : output_token_ids) count_token(id, 1);
  for (const int32_t id : seen_) {
    float& logit = row_[static_cast<size_t>(id)];
    Occurrence& occurrence = occurrences_[static_cast<size_t>(id)];
    // Division by a tiny penalty may overflow to infinity. The clamp keeps an allowed token
    // drawable.
    if (logit > 0.0F) {
      logit = std::min(logit / params.repetition_penalty, std::numeric_limits<float>::max());
    } else {
      logit *= params.repetition_penalty;
    }
    if (occurrence.in_output > 0) {
      logit -= params.frequency_penalty * static_cast<float>(occurrence.in_output);
      logit -= params.presence_penalty;
    }
    occurrence = {};
  }
  seen_.clear();
}

void LogitAdjuster::count_token(int32_t token_id, int occurrences) {
  Occurrence& occurrence = occurrences_[static_cast<size_t>(token_id)];
  if (!occurrence.is_seen) seen_.push_back(token_id);
  occurrence.is_seen = true;
  occurrence.in_output += occurrences;
}

}  // namespace reprise::sampling
