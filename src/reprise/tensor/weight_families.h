#pragma once

#include <cstdint>
#include <initializer_list>

#include "reprise/tensor/weight_family.h"

namespace reprise {

/// The families of layouts in which the kernels of a device read weights, and those in which they
/// read experts. Plain rows are always among them. If the families of experts are not given,
/// experts may lie in blocks where other weights may.
class WeightFamilies {
 public:
  constexpr WeightFamilies() noexcept = default;
  constexpr WeightFamilies(std::initializer_list<WeightFamily> families) noexcept {
    for (const WeightFamily family : families) bits_ |= bit(family);
    of_experts_ |= bits_ & bit(WeightFamily::block_panels);
  }
  constexpr WeightFamilies(std::initializer_list<WeightFamily> families,
                           std::initializer_list<WeightFamily> of_experts) noexcept
      : WeightFamilies(families) {
    for (const WeightFamily family : of_experts) of_experts_ |= bit(family);
  }
  [[nodiscard]] static constexpr WeightFamilies all() noexcept {
    using enum WeightFamily;
    return {column_panels, block_panels, int8_panels, float_panels};
  }

  [[nodiscard]] constexpr bool has(WeightFamily family) const noexcept {
    return (bits_ & bit(family)) != 0;
  }
  [[nodiscard]] constexpr bool has_experts(WeightFamily family) const noexcept {
    return (of_experts_ & bit(family)) != 0;
  }

 private:
  static constexpr uint32_t bit(WeightFamily family) noexcept {
    return uint32_t{1} << static_cast<uint32_t>(family);
  }

  uint32_t bits_ = bit(WeightFamily::rows);
  uint32_t of_experts_ = bit(WeightFamily::rows);
};

}  // namespace reprise
