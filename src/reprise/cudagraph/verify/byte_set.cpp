#include "reprise/cudagraph/verify/byte_set.h"

#include <algorithm>

namespace reprise::cudagraph {

void ByteSet::add(uintptr_t begin, uintptr_t end) {
  if (begin >= end) return;
  // The first range that touches the new one, or comes after it.
  const auto first = std::lower_bound(
      ranges_.begin(), ranges_.end(), begin, [](const Range& range, uintptr_t address) {
        return range.end < address;
      });
  auto last = first;
  for (; last != ranges_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    ranges_.insert(first, {begin, end});
    return;
  }
  *first = {begin, end};
  ranges_.erase(first + 1, last);
}

uintptr_t ByteSet::first_missing(uintptr_t begin, uintptr_t end) const noexcept {
  if (begin >= end) return end;
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), begin, [](uintptr_t address, const Range& range) {
        return address < range.begin;
      });
  if (after == ranges_.begin()) return begin;
  const uintptr_t covered = (after - 1)->end;
  // Ranges do not touch, so the byte after a range is in no range.
  return covered <= begin ? begin : std::min(covered, end);
}

}  // namespace reprise::cudagraph
