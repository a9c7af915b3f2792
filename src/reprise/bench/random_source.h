#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace reprise::bench {

/// Seeded numbers that are the same with every compiler and standard library, which the
/// distributions of <random> are not: a workload is named by its options and its seed.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : engine_(seed) {}

  /// In [0, 1).
  double uniform();
  /// In [low, high]. \pre low <= high
  int64_t integer(int64_t low, int64_t high);
  double normal();
  /// Mean shape * scale. \pre both positive
  double gamma(double shape, double scale);

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<size_t>(integer(0, static_cast<int64_t>(i) - 1))]);
    }
  }

 private:
  std::mt19937_64 engine_;  // the standard says what it yields
};

}  // namespace reprise::bench
