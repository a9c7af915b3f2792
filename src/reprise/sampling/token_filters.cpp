#include "reprise/sampling/token_filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace reprise::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// top_p sorts this many tokens instead of looking for a narrower range of logits. A pass over a
/// row of 150 000 logits costs about as much as sorting them.
constexpr size_t kMostSorted = 1024;

/// exp() of a smaller exponent is 0 in float32: tokens that are this much less likely than the
/// likeliest token are never drawn.
constexpr float kSmallestExponent = -104.0F;

/// The distances from the largest logit, in units of the temperature, of the levels that top_p
/// tries first. Most of the weight is near the largest logit.
constexpr std::array<float, kNumLevels - 1> kFirstDistances = {1, 2, 3, 4.5F, 6.5F, 9, 13};

/// After this many passes a range of floats cannot become narrower: each pass leaves an eighth of
/// it.
constexpr int kMostPasses = 50;

float next_up(float x) { return std::nextafter(x, kInfinity); }

/// The smallest logit that min_p keeps.
float least_of_min_p(float max, const FilterOptions& options) {
  if (options.min_p <= 0.0F) return kNever;
  const double edge = std::log(static_cast<double>(options.min_p)) * options.temperature;
  const auto is_allowed = [&](float logit) { return static_cast<double>(logit) - max >= edge; };
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  auto least = static_cast<float>(std::max(max + edge, kLowest));  // may be one step off
  while (!is_allowed(least)) least = next_up(least);
  while (least > kNever && is_allowed(std::nextafter(least, kNever))) {
    least = std::nextafter(least, kNever);
  }
  return least;
}

double weight(const Candidate& candidate, const WeightScale& scale) {
  return std::exp((static_cast<double>(candidate.logit) - scale.max) *
                  static_cast<double>(scale.inverse_temperature));
}

WeightScale scale_of(const LogitRow& row, float temperature) {
  return {.max = row.max, .inverse_temperature = 1.0F / temperature};
}

/// Writes the tokens of `logits` that are in [low, high) to `found`, and returns their number. No
/// branch depends on a logit, because the processor could not predict it.
size_t find_between(std::span<const float> logits,
                    size_t first_id,
                    float low,
                    float high,
                    std::array<Candidate, kPartSize>& found) {
  const float* from = logits.data();
  Candidate* to = found.data();
  for (size_t i = 0; i < logits.size(); ++i) {
    *to = {.logit = from[i], .token_id = static_cast<int32_t>(first_id + i)};
    to += static_cast<int>(from[i] >= low) & static_cast<int>(from[i] < high);
  }
  return static_cast<size_t>(to - found.data());
}

/// Levels from just below `high` down to `low`.
Levels levels_between(float low, float high) {
  Levels levels;
  const double step = (static_cast<double>(high) - low) / kNumLevels;
  for (size_t i = 0; i + 1 < kNumLevels; ++i) {
    levels[i] = static_cast<float>(high - step * static_cast<double>(i + 1));
  }
  levels.back() = low;
  return levels;
}

}  // namespace

TokenFilter::TokenFilter(int max_vocab_size, const RowPasses& passes) : passes_(&passes) {
  const auto size = static_cast<size_t>(max_vocab_size);
  candidates_.reserve(size);
  part_maxima_.reserve(num_parts(size));
  part_sums_.resize(num_parts(size));
}

/// Calls `is_drawn(weight)` for each token of a part that has a weight, down to the edge, in
/// ascending order of ids. Returns the first token for which the result is true, or else the last
/// token.
template <typename IsDrawn>
int32_t TokenFilter::walk_part(const LogitRow& row,
                               const WeightScale& scale,
                               const Candidate& edge,
                               size_t part,
                               const IsDrawn& is_drawn) const {
  const size_t begin = part * kPartSize;
  const auto logits = row.logits.subspan(begin, std::min(kPartSize, row.logits.size() - begin));
  std::array<float, kPartSize> weights;
  passes_->weigh(logits, scale, weights);
  int32_t last = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate token = {.logit = logits[i], .token_id = static_cast<int32_t>(begin + i)};
    if (weights[i] == 0.0F || is_likelier(edge, token)) continue;
    last = token.token_id;
    if (is_drawn(weights[i])) break;
  }
  return last;
}

Candidate TokenFilter::find_edge(const LogitRow& row, const FilterOptions& options) {
  const float least = least_of_min_p(row.max, options);
  if (options.top_k > 0 && static_cast<size_t>(options.top_k) < row.logits.size()) {
    return edge_of_top_k(row, options, least);
  }
  if (options.top_p < 1.0F) return edge_of_top_p(row, options, least);
  return {.logit = least};
}

/// Finds the edge of top_k, and then of top_p among the tokens that top_k keeps.
Candidate TokenFilter::edge_of_top_k(const LogitRow& row,
                                     const FilterOptions& options,
                                     float least) {
  const auto k = static_cast<size_t>(options.top_k);
  (void)collect(row, std::max(least, floor_of_top_k(row, k)), kInfinity, row.logits.size());
  if (candidates_.size() > k) {
    const auto kth = candidates_.begin() + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(candidates_.begin(), kth, candidates_.end(), is_likelier);
    candidates_.resize(k);
    if (options.top_p >= 1.0F) return candidates_.back();
  }
  std::sort(candidates_.begin(), candidates_.end(), is_likelier);
  if (options.top_p >= 1.0F) return candidates_.back();
  const WeightScale scale = scale_of(row, options.temperature);
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += weight(candidate, scale);
  return last_of_mass(scale, 0.0, static_cast<double>(options.top_p) * total);
}

/// Returns a lower bound of the k-th largest logit: the k-th largest of the maxima of the parts.
/// Returns -inf when there are fewer parts.
float TokenFilter::floor_of_top_k(const LogitRow& row, size_t k) {
  if (k > row.maxima.size()) return kNever;
  part_maxima_.assign(row.maxima.begin(), row.maxima.end());
  const auto kth = part_maxima_.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(part_maxima_.begin(), kth, part_maxima_.end(), std::greater<>());
  return *kth;
}

/// Finds the edge of top_p without top_k: narrows the range of logits in which the edge must lie
/// until few tokens are in it, then sorts these.
Candidate TokenFilter::edge_of_top_p(const LogitRow& row,
                                     const FilterOptions& options,
                                     float least) {
  const WeightScale scale = scale_of(row, options.temperature);
  const auto lowest = static_cast<float>(
      std::max(row.max + static_cast<double>(kSmallestExponent) * options.temperature,
               static_cast<double>(std::numeric_limits<float>::lowest())));
  Bracket bracket = {.low = std::max(least, lowest), .high = kInfinity, .mass = 0.0};
  Levels levels;
  for (size_t i = 0; i + 1 < kNumLevels; ++i) {
    levels[i] = std::max(row.max - kFirstDistances[i] * options.temperature, bracket.low);
  }
  levels.back() = bracket.low;
  Masses masses = passes_->sum_above(row, scale, levels);
  const double wanted = static_cast<double>(options.top_p) * masses.back();
  bool is_complete = false;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    // The last mass is always enough.
    const auto enough = std::find_if(
        masses.begin(), masses.end() - 1, [wanted](double mass) { return mass >= wanted; });
    const auto i = static_cast<size_t>(enough - masses.begin());
    if (i > 0) bracket = {.low = bracket.low, .high = levels[i - 1], .mass = masses[i - 1]};
    bracket.low = levels[i];
    is_complete = collect(row, bracket.low, bracket.high, kMostSorted);
    if (is_complete || next_up(bracket.low) >= bracket.high) break;
    levels = levels_between(bracket.low, std::min(bracket.high, next_up(row.max)));
    masses = passes_->sum_above(row, scale, levels);
  }
  // The list is incomplete if thousands of tokens have the same logit.
  if (!is_complete) (void)collect(row, bracket.low, bracket.high, row.logits.size());
  std::sort(candidates_.begin(), candidates_.end(), is_likelier);
  return last_of_mass(scale, bracket.mass, wanted);
}

/// Lists the tokens with logits in [low, high) in ascending order of ids. Returns false if there
/// are more than `most`; then the list is not complete.
bool TokenFilter::collect(const LogitRow& row, float low, float high, size_t most) {
  candidates_.clear();
  low = std::max(low, std::numeric_limits<float>::lowest());  // without tokens that are excluded
  std::array<Candidate, kPartSize> found;
  for (size_t part = 0; part < row.maxima.size(); ++part) {
    if (row.maxima[part] < low) continue;
    const size_t begin = part * kPartSize;
    const size_t size = std::min(kPartSize, row.logits.size() - begin);
    const size_t count = find_between(row.logits.subspan(begin, size), begin, low, high, found);
    if (candidates_.size() + count > most) return false;
    candidates_.insert(
        candidates_.end(), found.begin(), found.begin() + static_cast<ptrdiff_t>(count));
  }
  return true;
}

/// The first of the sorted candidates with which the weight reaches `wanted`. Tokens that are
/// likelier than all candidates have the weight `mass`.
Candidate TokenFilter::last_of_mass(const WeightScale& scale, double mass, double wanted) const {
  for (const Candidate& candidate : candidates_) {
    mass += weight(candidate, scale);
    if (mass >= wanted) return candidate;
  }
  return candidates_.back();  // by rounding
}

/// Computes the weights of the tokens down to the edge, by part.
void TokenFilter::sum_kept_parts(const LogitRow& row,
                                 const WeightScale& scale,
                                 const Candidate& edge) {
  const auto parts_of = [&](size_t first, size_t end, float least) {
    if (first >= end) return;
    const size_t last_logit = std::min(end * kPartSize, row.logits.size());
    passes_->sum_parts(
        {.logits = row.logits.subspan(first * kPartSize, last_logit - first * kPartSize),
         .maxima = row.maxima.subspan(first, end - first),
         .max = row.max},
        scale,
        least,
        std::span(part_sums_).subspan(first, end - first));
  };
  const size_t num_row_parts = row.maxima.size();
  const size_t edge_part = std::min(static_cast<size_t>(edge.token_id) / kPartSize, num_row_parts);
  parts_of(0, edge_part, edge.logit);
  if (edge_part == num_row_parts) return;
  // Tokens with the same logit as the edge but a higher id are dropped.
  parts_of(edge_part + 1, num_row_parts, next_up(edge.logit));
  part_sums_[edge_part] = 0.0F;
  (void)walk_part(row, scale, edge, edge_part, [this, edge_part](float weight) {
    part_sums_[edge_part] += weight;
    return false;
  });
}

int32_t TokenFilter::draw(const LogitRow& row,
                          float temperature,
                          const Candidate& edge,
                          double uniform) {
  const WeightScale scale = scale_of(row, temperature);
  sum_kept_parts(row, scale, edge);
  const auto sums = std::span(part_sums_).first(row.maxima.size());
  double total = 0.0;
  for (const float sum : sums) total += static_cast<double>(sum);
  const double target = uniform * total;
  double cumulated = 0.0;
  size_t drawn = 0;
  for (size_t part = 0; part < sums.size(); ++part) {
    if (sums[part] == 0.0F) continue;
    drawn = part;  // the last part with a weight, if rounding leads beyond the end
    if (cumulated + static_cast<double>(sums[part]) > target) break;
    cumulated += static_cast<double>(sums[part]);
  }
  return walk_part(row, scale, edge, drawn, [&cumulated, target](float weight) {
    cumulated += static_cast<double>(weight);
    return cumulated > target;
  });
}

}  // namespace reprise::sampling
