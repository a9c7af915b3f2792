#include "reprise/sampling/token_filters.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace reprise::sampling {
namespace {

/// Logits per block in floor_of_top_k. With 64, a vocabulary of 150 000 tokens gives 2 400 maxima:
/// enough for any usual top_k, and cheap to select from.
constexpr size_t kBlock = 64;

/// keep_top_p sorts this many candidates directly instead of bisecting further.
constexpr ptrdiff_t kSortedAtOnce = 32;

/// A strict total order. The result then does not depend on how a selection algorithm treats equal
/// elements.
bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token_id < b.token_id;
}

}  // namespace

TokenFilter::TokenFilter(int max_vocab_size) {
  const auto size = static_cast<size_t>(max_vocab_size);
  kept_.reserve(size);
  ordered_.reserve(size);
  block_max_.reserve(size / kBlock + 1);
}

std::span<const Candidate> TokenFilter::apply(std::span<const float> logits,
                                              const FilterOptions& options) {
  const float max_logit = *std::max_element(logits.begin(), logits.end());
  const double min_p_edge = options.min_p > 0.0F
                                ? std::log(static_cast<double>(options.min_p)) * options.temperature
                                : static_cast<double>(kNever);
  const float floor = floor_of_top_k(logits, options.top_k);
  kept_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (logit == kNever || logit < floor) continue;
    if (static_cast<double>(logit) - max_logit < min_p_edge) continue;
    kept_.push_back({.token_id = static_cast<int32_t>(i), .logit = logit});
  }
  keep_top_k(options.top_k);
  weigh(max_logit, options.temperature);
  keep_top_p(options.top_p);
  return kept_;
}

/// Returns a lower bound of the top_k-th largest logit: the top_k-th largest of the maxima of
/// disjoint blocks. Tokens below the bound can be skipped. Returns -inf when a bound would not
/// help.
float TokenFilter::floor_of_top_k(std::span<const float> logits, int top_k) {
  const auto k = static_cast<size_t>(std::max(top_k, 0));
  if (k == 0 || k > logits.size() / kBlock) return kNever;
  block_max_.clear();
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    block_max_.push_back(*std::max_element(block.begin(), block.end()));
  }
  const auto kth = block_max_.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(block_max_.begin(), kth, block_max_.end(), std::greater<>());
  return *kth;
}

void TokenFilter::keep_top_k(int top_k) {
  const auto k = static_cast<size_t>(std::max(top_k, 0));
  if (k == 0 || k >= kept_.size()) return;
  ordered_.assign(kept_.begin(), kept_.end());
  const auto kth = ordered_.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(ordered_.begin(), kth, ordered_.end(), is_likelier);
  keep_down_to(*kth);
}

/// Computes the weights and drops tokens whose weight underflows to 0, because they can never be
/// drawn.
void TokenFilter::weigh(float max_logit, float temperature) {
  for (Candidate& candidate : kept_) {
    candidate.weight = std::exp((static_cast<double>(candidate.logit) - max_logit) / temperature);
  }
  std::erase_if(kept_, [](const Candidate& candidate) { return candidate.weight == 0.0; });
}

/// Keeps the smallest set of likeliest tokens whose weights sum to at least the share top_p.
void TokenFilter::keep_top_p(float top_p) {
  if (top_p >= 1.0F) return;
  double total = 0.0;
  for (const Candidate& candidate : kept_) total += candidate.weight;
  const double wanted = static_cast<double>(top_p) * total;
  // All tokens below this bound together weigh less than the share that top_p removes, so the edge
  // is above them.
  const double negligible = (total - wanted) / static_cast<double>(kept_.size());
  ordered_.clear();
  for (const Candidate& candidate : kept_) {
    if (candidate.weight >= negligible) ordered_.push_back(candidate);
  }
  if (ordered_.empty()) return;  // possible by rounding when top_p is just below 1

  // Bisects by weight: every token before `first` is in the set, and no token from `last` on is.
  auto first = ordered_.begin();
  auto last = ordered_.end();
  double mass = 0.0;
  while (last - first > kSortedAtOnce) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, is_likelier);
    double mass_of_half = 0.0;
    for (auto it = first; it != middle; ++it) mass_of_half += it->weight;
    if (mass + mass_of_half >= wanted) {
      last = middle;
    } else {
      mass += mass_of_half;
      first = middle;
    }
  }
  std::sort(first, last, is_likelier);
  while (first != last - 1 && mass + first->weight < wanted) mass += (first++)->weight;
  keep_down_to(*first);
}

void TokenFilter::keep_down_to(Candidate last) {
  std::erase_if(kept_, [&last](const Candidate& c) { return is_likelier(last, c); });
}

int32_t draw(std::span<const Candidate> candidates, double uniform) noexcept {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  const double target = uniform * total;
  double cumulated = 0.0;
  for (const Candidate& candidate : candidates) {
    cumulated += candidate.weight;
    if (cumulated > target) return candidate.token_id;
  }
  return candidates.back().token_id;  // reached when uniform * total is rounded up to total
}

}  // namespace reprise::sampling
