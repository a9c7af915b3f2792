#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/tensor/dtype.h"

/// Values of ranks for tests of collective ops.
namespace reprise::kernels {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};

/// The elements of one rank, which every rank can compute for all others.
template <typename T>
std::vector<T> values_of(int rank, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 11);
  std::normal_distribution<float> normal(0, 3);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) store_element(&value, normal(random));
  return values;
}

}  // namespace reprise::kernels
