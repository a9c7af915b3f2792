#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "reprise/tensor/tensor.h"

/// Element access for the `_ref` oracles. It serves any float or integer type and any strides, and
/// is simple rather than fast.
namespace reprise::kernels {

/// One element as a double. \pre the tensor is on the host
[[nodiscard]] double element(
    const Tensor& tensor, int64_t i, int64_t j = 0, int64_t k = 0, int64_t l = 0);
/// Rounds to the tensor's type, to nearest even.
void set_element(
    const Tensor& tensor, double value, int64_t i, int64_t j = 0, int64_t k = 0, int64_t l = 0);
[[nodiscard]] int64_t int_element(const Tensor& tensor, int64_t i, int64_t j = 0);

/// All rows of the last dimension, as indices of the leading dimensions (at most three).
struct RowIndex {
  int64_t i = 0;
  int64_t j = 0;
  int64_t k = 0;
};
[[nodiscard]] std::vector<RowIndex> all_rows(const Tensor& tensor);
/// Element `column` of the row.
[[nodiscard]] double row_element(const Tensor& tensor, const RowIndex& row, int64_t column);
/// All elements of the row. Large oracles read rows: checking the index once is several times
/// faster.
[[nodiscard]] std::vector<double> row_elements(const Tensor& tensor, const RowIndex& row);
void set_row_element(const Tensor& tensor, double value, const RowIndex& row, int64_t column);
/// Fills the tensor with normal numbers. They come from a table of 65,536, because tests fill some
/// gigabytes and std::normal_distribution needs a logarithm for each number.
void fill_normal(const Tensor& tensor, std::mt19937& random, double deviation);

}  // namespace reprise::kernels
