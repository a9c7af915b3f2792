#include "reprise/speculative/suffix_index.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reprise/base/assert.h"

namespace reprise::speculative {
namespace {

/// No look-up goes deeper than this number, because no run of drafts is longer.
constexpr size_t kLongestRun = 64;

/// The largest number of drafts for a match of this length.
size_t most_drafts(int num_matched, size_t room, const SuffixOptions& options) {
  const double wanted = std::floor(num_matched * options.max_spec_factor);
  const double most = std::min({wanted,
                                static_cast<double>(options.max_tree_depth - num_matched),
                                static_cast<double>(std::min(room, kLongestRun))});
  return static_cast<size_t>(std::max(0.0, most));
}

}  // namespace

SuffixIndex::SuffixIndex(size_t capacity)
    : tokens_(capacity), links_(capacity), heads_(std::bit_ceil(capacity)) {
  REPRISE_ASSERT(capacity >= 1 && capacity <= size_t{1} << 31, "a capacity of {}", capacity);
  places_.reserve(kMostPlaces);
  active_.reserve(kMostPlaces);
  run_.reserve(kLongestRun);
}

size_t SuffixIndex::bucket_of(int32_t first, int32_t second) const noexcept {
  const uint64_t pair =
      (static_cast<uint64_t>(static_cast<uint32_t>(first)) << 32) | static_cast<uint32_t>(second);
  // Fibonacci hashing: the upper bits of the product depend on all bits of the pair.
  return static_cast<size_t>((pair * 0x9E3779B97F4A7C15U) >> 32) & (heads_.size() - 1);
}

void SuffixIndex::append(int32_t token) {
  const uint64_t position = end_++;
  tokens_[position % tokens_.size()] = token;
  if (end_ - begin_ > tokens_.size()) begin_ = end_ - tokens_.size();
  uint32_t& link = links_[position % links_.size()];
  link = 0;
  if (position == begin_) return;
  uint64_t& head = heads_[bucket_of(token_at(position - 1), token)];
  if (head > begin_) link = static_cast<uint32_t>(position - (head - 1));
  head = position + 1;
}

void SuffixIndex::forget_before(uint64_t position) noexcept { begin_ = std::max(begin_, position); }

/// The number of tokens up to `position` that agree with the last of `tokens`.
int SuffixIndex::count_matched(uint64_t position,
                               std::span<const int32_t> tokens,
                               int most_matched) const noexcept {
  int count = 0;
  while (count < most_matched && position >= begin_ + static_cast<uint64_t>(count) &&
         token_at(position - static_cast<uint64_t>(count)) ==
             tokens[tokens.size() - 1 - static_cast<size_t>(count)]) {
    ++count;
  }
  return count;
}

void SuffixIndex::find_places(std::span<const int32_t> tokens, int most_matched) {
  places_.clear();
  const uint64_t head = heads_[bucket_of(tokens[tokens.size() - 2], tokens.back())];
  if (head <= begin_) return;
  uint64_t position = head - 1;
  for (int num_links = 0; num_links < kMostLinks && places_.size() < kMostPlaces; ++num_links) {
    const int num_matched = count_matched(position, tokens, most_matched);
    const bool is_followed = position + 1 < end_ && token_at(position + 1) != kSeparator;
    if (num_matched >= 2 && is_followed) {
      places_.push_back({.next = position + 1, .num_matched = num_matched});
    }
    const uint32_t link = links_[position % links_.size()];
    if (link == 0 || position < begin_ + link) return;
    position -= link;
  }
}

/// The token that most of the active places have at `depth`, and the number of these places. Among
/// equals, the token of the latest place wins. A separator never wins.
int32_t SuffixIndex::most_frequent_next(size_t depth, size_t& count) const {
  const auto token_of = [&](uint64_t next) {
    return next + depth < end_ ? token_at(next + depth) : kSeparator;
  };
  int32_t best = kSeparator;
  count = 0;
  for (const uint64_t place : active_) {
    const int32_t token = token_of(place);
    if (token == kSeparator) continue;
    const auto num_equal = static_cast<size_t>(
        std::ranges::count_if(active_, [&](uint64_t next) { return token_of(next) == token; }));
    if (num_equal > count) {
      count = num_equal;
      best = token;
    }
  }
  return best;
}

/// Follows the most frequent tokens after all places that have at least this many matched tokens.
SuffixIndex::Proposal SuffixIndex::follow(int num_matched, size_t most, double min_prob) {
  active_.clear();
  run_.clear();
  for (const Place& place : places_) {
    if (place.num_matched >= num_matched) active_.push_back(place.next);
  }
  Proposal proposal;
  double probability = 1;
  while (run_.size() < most) {
    const size_t depth = run_.size();
    size_t count = 0;
    const int32_t token = most_frequent_next(depth, count);
    if (token == kSeparator) break;
    probability *= static_cast<double>(count) / static_cast<double>(active_.size());
    if (probability < min_prob) break;
    proposal.score += probability;
    run_.push_back(token);
    std::erase_if(active_, [&](uint64_t next) {
      return next + depth >= end_ || token_at(next + depth) != token;
    });
  }
  proposal.num_drafts = static_cast<int>(run_.size());
  return proposal;
}

// Source: Arctic Inference's suffix decoding chooses the same run where no bound is reached, except
// for matches of one token.
SuffixIndex::Proposal SuffixIndex::propose(std::span<const int32_t> tokens,
                                           std::span<int32_t> drafts,
                                           const SuffixOptions& options) {
  Proposal best;
  const int most_matched = std::min(options.max_tree_depth - 1, static_cast<int>(tokens.size()));
  if (most_matched < 2) return best;
  find_places(tokens, most_matched);
  // Several lengths in a row may have the same places. The length that allows the most drafts
  // stands for all of them.
  size_t most = 0;
  for (int num_matched = most_matched; num_matched >= 2; --num_matched) {
    const auto has = [this](int length) {
      return std::ranges::any_of(
          places_, [length](const Place& place) { return place.num_matched == length; });
    };
    if (has(num_matched)) most = 0;
    most = std::max(most, most_drafts(num_matched, drafts.size(), options));
    if (num_matched > 2 && !has(num_matched - 1)) continue;
    const Proposal proposal = follow(num_matched, most, options.min_token_prob);
    if (proposal.score <= best.score) continue;
    best = proposal;
    std::ranges::copy(run_, drafts.begin());
  }
  return best;
}

}  // namespace reprise::speculative
