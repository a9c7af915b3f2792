#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "reprise/base/assert.h"

namespace reprise {

/// Up to four sizes, outermost first. A value type that does not allocate.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes) {
    REPRISE_ASSERT(sizes.size() <= kMaxRank, "rank {} is more than {}", sizes.size(), kMaxRank);
    for (int64_t size : sizes) sizes_[static_cast<size_t>(rank_++)] = size;
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// A dimension that is added has size 0.
  void set_rank(int rank) {
    REPRISE_ASSERT(rank >= 0 && rank <= kMaxRank, "rank {} is more than {}", rank, kMaxRank);
    rank_ = rank;
    for (int dim = rank; dim < kMaxRank; ++dim) sizes_[static_cast<size_t>(dim)] = 0;
  }
  /// Size of dimension `dim`; negative counts from the end.
  [[nodiscard]] int64_t operator[](int dim) const { return sizes_[index(dim)]; }
  [[nodiscard]] int64_t& operator[](int dim) { return sizes_[index(dim)]; }
  [[nodiscard]] std::span<const int64_t> sizes() const noexcept {
    return {sizes_.data(), static_cast<size_t>(rank_)};
  }
  [[nodiscard]] int64_t num_elements() const noexcept {
    int64_t product = 1;
    for (int64_t size : sizes()) product *= size;
    return product;
  }
  /// Element strides of a dense tensor of this shape.
  [[nodiscard]] Shape dense_strides() const {
    Shape strides = *this;
    int64_t stride = 1;
    for (int dim = rank_ - 1; dim >= 0; --dim) {
      strides[dim] = stride;
      stride *= (*this)[dim];
    }
    return strides;
  }
  /// "[3, 4096]"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  [[nodiscard]] size_t index(int dim) const {
    const int positive = dim < 0 ? dim + rank_ : dim;
    REPRISE_ASSERT(positive >= 0 && positive < rank_, "dimension {} of rank {}", dim, rank_);
    return static_cast<size_t>(positive);
  }

  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

}  // namespace reprise
