#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reprise/sampling/row_passes.h"

namespace reprise::sampling {

/// The logit of a token that must not be drawn.
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// A token and its logit. Tokens are ordered by likelihood: the larger logit first, and among equal
/// logits the lower id.
struct Candidate {
  float logit = kNever;
  int32_t token_id = std::numeric_limits<int32_t>::max();
};

[[nodiscard]] constexpr bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token_id < b.token_id;
}

struct FilterOptions {
  float temperature = 1.0F;  // > 0
  float min_p = 0.0F;        // [0, 1]; 0 = off
  int top_k = 0;             // <= 0 = off
  float top_p = 1.0F;        // (0, 1]; 1 = off
};

/// Applies temperature, min_p, top_k and top_p, in this order, without sorting the vocabulary, and
/// draws. Each filter sees the renormalised distribution that the previous filter left, so all
/// filters together keep the tokens down to one edge. The constructor allocates all memory. Not
/// thread-safe. Borrows the passes.
class TokenFilter {
 public:
  TokenFilter(int max_vocab_size, const RowPasses& passes);

  /// The least likely token that may be drawn: this token and all likelier tokens may be drawn.
  /// Without a filter the edge is beyond all tokens.
  [[nodiscard]] Candidate find_edge(const LogitRow& row, const FilterOptions& options);

  /// Draws by inverting the CDF: goes through the tokens down to the edge in ascending order of
  /// ids, and returns the first one at which the cumulated weight exceeds uniform * total.
  /// \pre `edge` is no likelier than the likeliest token of the row; 0 <= uniform < 1
  [[nodiscard]] int32_t draw(const LogitRow& row,
                             float temperature,
                             const Candidate& edge,
                             double uniform);

 private:
  /// The range in which the edge lies: logits in [low, high). Tokens with logits from `high` on are
  /// kept, and their weight is `mass`.
  struct Bracket {
    float low;
    float high;
    double mass;
  };

  [[nodiscard]] Candidate edge_of_top_k(const LogitRow& row,
                                        const FilterOptions& options,
                                        float least);
  [[nodiscard]] Candidate edge_of_top_p(const LogitRow& row,
                                        const FilterOptions& options,
                                        float least);
  [[nodiscard]] float floor_of_top_k(const LogitRow& row, size_t k);
  [[nodiscard]] bool collect(const LogitRow& row, float low, float high, size_t most);
  [[nodiscard]] Candidate last_of_mass(const WeightScale& scale, double mass, double wanted) const;
  void sum_kept_parts(const LogitRow& row, const WeightScale& scale, const Candidate& edge);
  template <typename IsDrawn>
  int32_t walk_part(const LogitRow& row,
                    const WeightScale& scale,
                    const Candidate& edge,
                    size_t part,
                    const IsDrawn& is_drawn) const;

  const RowPasses* passes_;
  std::vector<Candidate> candidates_;
  std::vector<float> part_maxima_;  // scratch of floor_of_top_k
  std::vector<float> part_sums_;
};

}  // namespace reprise::sampling
