#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::speculative {

/// vLLM's keys of method suffix, without their prefix suffix_decoding_.
struct SuffixOptions {
  int max_tree_depth = 24;          // the most matched and proposed tokens together
  int max_cached_requests = 10000;  // earlier answers that are kept; 0: none
  double max_spec_factor = 1.0;     // the most proposed tokens per matched token
  double min_token_prob = 0.1;      // smallest probability of a proposed run of tokens

  friend bool operator==(const SuffixOptions&, const SuffixOptions&) = default;
};

/// Finds the places of a text whose last tokens are those of a request, and proposes what followed
/// most often. This is what a suffix tree with counts gives, but without the tree: places with the
/// same two tokens are linked (the hash chains of LZ77), so a token takes 16 bytes. Matches have at
/// least two tokens.
///
/// Holds the last `capacity` tokens; older ones fall out. Allocates only in the constructor. A
/// value type; not thread-safe.
class SuffixIndex {
 public:
  /// Separates two texts, and matches no token.
  static constexpr int32_t kSeparator = -1;
  /// A look-up stops after this many places with the same two tokens, the latest first, or after
  /// this many links. These limits bound its time.
  static constexpr size_t kMostPlaces = 64;
  static constexpr int kMostLinks = 512;

  /// \pre 1 <= capacity <= 2^31
  explicit SuffixIndex(size_t capacity);

  void append(int32_t token);
  void append(std::span<const int32_t> tokens) {
    for (const int32_t token : tokens) append(token);
  }
  /// Forgets all tokens before this position. \pre position <= end()
  void forget_before(uint64_t position) noexcept;
  /// Positions are counted from the first token ever appended.
  [[nodiscard]] uint64_t begin() const noexcept { return begin_; }
  [[nodiscard]] uint64_t end() const noexcept { return end_; }
  [[nodiscard]] size_t capacity() const noexcept { return tokens_.size(); }

  struct Proposal {
    int num_drafts = 0;
    /// The expected number of right drafts: the sum of the counted probabilities of runs of 1, 2,
    /// ... drafts.
    double score = 0;
  };
  /// Writes guesses of the tokens after `tokens` to the front of `drafts`. Of all lengths of
  /// matches, the one with the highest score wins; among equals the longest.
  [[nodiscard]] Proposal propose(std::span<const int32_t> tokens,
                                 std::span<int32_t> drafts,
                                 const SuffixOptions& options);

 private:
  /// A place with the same last tokens.
  struct Place {
    uint64_t next = 0;  // the position after the match
    int num_matched = 0;
  };

  [[nodiscard]] int32_t token_at(uint64_t position) const noexcept {
    return tokens_[position % tokens_.size()];
  }
  [[nodiscard]] size_t bucket_of(int32_t first, int32_t second) const noexcept;
  void find_places(std::span<const int32_t> tokens, int most_matched);
  [[nodiscard]] int count_matched(uint64_t position,
                                  std::span<const int32_t> tokens,
                                  int most_matched) const noexcept;
  Proposal follow(int num_matched, size_t most, double min_prob);
  [[nodiscard]] int32_t most_frequent_next(size_t depth, size_t& count) const;

  std::vector<int32_t> tokens_;  // a ring
  /// For each position, the distance to the previous position of its bucket; 0: there is none.
  std::vector<uint32_t> links_;
  /// For each bucket, 1 + its last position; 0: the bucket is empty.
  std::vector<uint64_t> heads_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  // Of one look-up.
  std::vector<Place> places_;  // the latest first
  // The values of `next` for the places that agree with the run so far.
  std::vector<uint64_t> active_;
  std::vector<int32_t> run_;
};

}  // namespace reprise::speculative
