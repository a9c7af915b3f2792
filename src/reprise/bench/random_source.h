#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace reprise::bench {

/// Seeded random numbers that are the same with every compiler and standard library; the
/// distributions of <random> are not. Options and seed together therefore define a workload
/// exactly.
class RandomSource {
 public:
  explicit RandomSource(uint64_t seed) : engine_(seed) {}

  /// A number in [0, 1).
  double uniform();
  /// An integer in [low, high]. \pre low <= high
  int64_t integer(int64_t low, int64_t high);
  double normal();
  /// A gamma variable of mean shape * scale. \pre both are positive
  double gamma(double shape, double scale);

  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<size_t>(integer(0, static_cast<int64_t>(i) - 1))]);
    }
  }

 private:
  std::mt19937_64 engine_;  // the standard defines its numbers
};

}  // namespace reprise::bench
