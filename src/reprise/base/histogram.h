#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/base/assert.h"

namespace reprise {

/// Counts observations in buckets, like a histogram of Prometheus. The object has a fixed size, so
/// a copy is a memcpy. Not thread-safe.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;  // the longest list in use has 22

  Histogram() = default;
  /// `bounds`: ascending upper bounds; a value equal to a bound falls into its bucket. A bucket up
  /// to +Inf is added. `bounds` must outlive this object.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {
    REPRISE_ASSERT(bounds.size() <= kMaxBounds, "{} buckets", bounds.size());
  }

  void observe(double value) noexcept { observe(value, 1); }
  /// Counts the same value `times` times.
  void observe(double value, uint64_t times) noexcept {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)] += times;
    count_ += times;
    sum_ += value * static_cast<double>(times);
  }

  [[nodiscard]] std::span<const double> bounds() const noexcept { return bounds_; }
  /// The count of each bucket alone, not cumulated. The last bucket holds the values above all
  /// bounds.
  [[nodiscard]] std::span<const uint64_t> counts() const noexcept {
    return std::span(counts_).first(bounds_.size() + 1);
  }
  /// Takes the counts of another histogram with the same bounds. Counts beyond them are dropped.
  void restore(std::span<const uint64_t> counts, double sum) noexcept {
    counts_ = {};
    std::copy_n(counts.begin(), std::min(counts.size(), bounds_.size() + 1), counts_.begin());
    count_ = 0;
    for (const uint64_t count : counts_) count_ += count;
    sum_ = sum;
  }
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  [[nodiscard]] double sum() const noexcept { return sum_; }

 private:
  std::span<const double> bounds_;
  std::array<uint64_t, kMaxBounds + 1> counts_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace reprise
