#pragma once

#include <cstdint>
#include <limits>

namespace reprise::program {

/// A range of batch sizes in tokens. Both ends are included.
struct TokenRange {
  int64_t begin = 1;
  int64_t end = std::numeric_limits<int64_t>::max();
  /// Only multiples of this number belong to the range. The T of the range's program counts groups
  /// of this many tokens: with sequence parallelism, the tokens of one rank.
  int64_t multiple = 1;

  [[nodiscard]] bool contains(int64_t num_tokens) const noexcept {
    return begin <= num_tokens && num_tokens <= end && num_tokens % multiple == 0;
  }
  [[nodiscard]] bool contains(const TokenRange& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

}  // namespace reprise::program
