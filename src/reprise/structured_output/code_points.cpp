#include "reprise/structured_output/code_points.h"

#include <algorithm>

namespace reprise::structured_output {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

}  // namespace

CodePoints::CodePoints(std::initializer_list<Range> ranges) {
  for (const auto& [first, last] : ranges) add(first, last);
}

void CodePoints::add(uint32_t first, uint32_t last) {
  if (first < kFirstSurrogate && last > kLastSurrogate) {
    add(first, kFirstSurrogate - 1);
    add(kLastSurrogate + 1, last);
    return;
  }
  if (first >= kFirstSurrogate && first <= kLastSurrogate) first = kLastSurrogate + 1;
  if (last >= kFirstSurrogate && last <= kLastSurrogate) last = kFirstSurrogate - 1;
  if (first > last) return;
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    const bool touches = range.first <= last + 1 && first <= range.second + 1;
    if (!touches) {
      merged.push_back(range);
      continue;
    }
    first = std::min(first, range.first);
    last = std::max(last, range.second);
  }
  merged.insert(std::upper_bound(merged.begin(), merged.end(), Range(first, last)), {first, last});
  ranges_ = std::move(merged);
}

void CodePoints::add(const CodePoints& other) {
  for (const auto& [first, last] : other.ranges_) add(first, last);
}

CodePoints CodePoints::complement() const {
  CodePoints result;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) result.add(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) result.add(next, kLast);
  return result;
}

CodePoints CodePoints::without(const CodePoints& other) const {
  CodePoints either = complement();
  either.add(other);
  return either.complement();
}

bool CodePoints::contains(uint32_t code_point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [code_point](const Range& range) {
    return range.first <= code_point && code_point <= range.second;
  });
}

}  // namespace reprise::structured_output
