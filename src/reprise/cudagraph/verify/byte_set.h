#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::cudagraph {

/// A set of bytes, kept as ranges that do not touch, in the order of their addresses. Clearing it
/// keeps its memory.
class ByteSet {
 public:
  void clear() noexcept { ranges_.clear(); }
  void add(uintptr_t begin, uintptr_t end);
  /// The first byte of [begin, end) that is not in the set; `end` if all are.
  [[nodiscard]] uintptr_t first_missing(uintptr_t begin, uintptr_t end) const noexcept;

 private:
  struct Range {
    uintptr_t begin;
    uintptr_t end;
  };

  std::vector<Range> ranges_;
};

}  // namespace reprise::cudagraph
