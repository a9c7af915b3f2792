#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::structured_output {

/// A set of Unicode code points as sorted, disjoint, closed ranges. Surrogates are never in it.
class CodePoints {
 public:
  static constexpr uint32_t kLast = 0x10FFFF;
  using Range = std::pair<uint32_t, uint32_t>;

  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges);

  void add(uint32_t first, uint32_t last);
  void add(const CodePoints& other);
  [[nodiscard]] CodePoints complement() const;
  [[nodiscard]] CodePoints without(const CodePoints& other) const;
  [[nodiscard]] bool contains(uint32_t code_point) const;
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

}  // namespace reprise::structured_output
