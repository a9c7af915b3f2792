#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace reprise::sampling {

/// The logit of a token that must not be drawn.
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// A token that may still be drawn.
struct Candidate {
  int32_t token_id = 0;
  float logit = 0.0F;   // before temperature, which does not change the order
  double weight = 0.0;  // exp((logit - max logit) / temperature): in (0, 1], not normalised
};

struct FilterOptions {
  float temperature = 1.0F;  // > 0
  float min_p = 0.0F;        // [0, 1]; 0 = off
  int top_k = 0;             // <= 0 = off
  float top_p = 1.0F;        // (0, 1]; 1 = off
};

/// Applies temperature, min_p, top_k and top_p, in this order, without sorting the vocabulary:
/// thresholds come from nth_element, and top_p bisects by weight. Each filter sees the renormalised
/// distribution that the previous filter left. Among equal logits at an edge the lower id stays.
/// The constructor allocates all memory. Not thread-safe.
class TokenFilter {
 public:
  explicit TokenFilter(int max_vocab_size);

  /// The kept tokens in ascending id order, never empty; valid until the next call.
  /// \pre the largest logit is finite and no logit is NaN.
  std::span<const Candidate> apply(std::span<const float> logits,  // [vocab_size]
                                   const FilterOptions& options);

 private:
  [[nodiscard]] float floor_of_top_k(std::span<const float> logits, int top_k);
  void keep_top_k(int top_k);
  void weigh(float max_logit, float temperature);
  void keep_top_p(float top_p);
  void keep_down_to(Candidate last);

  std::vector<Candidate> kept_;     // ascending id
  std::vector<Candidate> ordered_;  // scratch for selection
  std::vector<float> block_max_;    // scratch of floor_of_top_k
};

/// Draws by inverting the CDF: returns the first candidate whose cumulated weight exceeds uniform *
/// total. \pre candidates not empty; 0 <= uniform < 1.
[[nodiscard]] int32_t draw(std::span<const Candidate> candidates, double uniform) noexcept;

}  // namespace reprise::sampling
