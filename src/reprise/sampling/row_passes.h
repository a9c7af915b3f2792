#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace reprise::sampling {

/// A row of logits is divided into parts of this many logits. A filter skips the parts whose
/// largest logit is too small.
inline constexpr size_t kPartSize = 64;

[[nodiscard]] constexpr size_t num_parts(size_t vocab_size) {
  return (vocab_size + kPartSize - 1) / kPartSize;
}

/// A row of logits, its largest logit and the largest logit of each part.
struct LogitRow {
  std::span<const float> logits;  // [vocab_size]; -inf is allowed, NaN and +inf are not
  std::span<const float> maxima;  // [num_parts(vocab_size)]
  float max = 0.0F;               // finite
};

/// The weight of a logit is exp((logit - max) * inverse_temperature), so the largest weight is 1.
struct WeightScale {
  float max = 0.0F;
  float inverse_temperature = 1.0F;
};

/// The number of levels for which one pass sums weights.
inline constexpr size_t kNumLevels = 8;
using Levels = std::array<float, kNumLevels>;
using Masses = std::array<double, kNumLevels>;

/// The passes over a whole row of logits, which take nearly all the time of sampling. One set of
/// passes gives each weight and each sum the same bits in every call; two sets may differ in the
/// last bits. The functions are thread-safe and allocate nothing.
class RowPasses {
 public:
  RowPasses() = default;
  RowPasses(const RowPasses&) = delete;
  RowPasses& operator=(const RowPasses&) = delete;
  virtual ~RowPasses() = default;

  /// Writes the largest logit of each part. Returns false if a logit is NaN or +inf; the maxima
  /// then mean nothing.
  [[nodiscard]] virtual bool find_maxima(std::span<const float> logits,
                                         std::span<float> maxima) const = 0;
  /// Writes the sum of the weights of each part, without the logits below `least`. The spans of
  /// `row` begin at the same part; its `max` is not used.
  virtual void sum_parts(const LogitRow& row,
                         const WeightScale& scale,
                         float least,
                         std::span<float> sums) const = 0;
  /// For each level, the sum of the weights of all logits that are at least the level.
  [[nodiscard]] virtual Masses sum_above(const LogitRow& row,
                                         const WeightScale& scale,
                                         const Levels& levels) const = 0;
  /// The weights of at most kPartSize logits.
  virtual void weigh(std::span<const float> logits,
                     const WeightScale& scale,
                     std::span<float> weights) const = 0;
};

/// Plain loops, for tests and for hosts whose kernels are unknown.
[[nodiscard]] std::unique_ptr<RowPasses> make_plain_row_passes();
[[nodiscard]] const RowPasses& plain_row_passes();

}  // namespace reprise::sampling
