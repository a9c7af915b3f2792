#include "tests/support/kernels/reference.h"

#include <array>
#include <type_traits>

#include "reprise/base/element.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {
namespace {

int64_t offset_of(const Tensor& tensor, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t index[] = {i, j, k, l};
  int64_t offset = 0;
  bool is_inside = true;
  const int rank = tensor.rank();
  for (int dim = 0; dim < rank; ++dim) {
    // A negative index is a large unsigned one.
    is_inside &= static_cast<uint64_t>(index[dim]) < static_cast<uint64_t>(tensor.size(dim));
    offset += index[dim] * tensor.stride(dim);
  }
  REPRISE_ASSERT(
      is_inside, "element [{}, {}, {}, {}] of {}", i, j, k, l, tensor.type().to_string());
  return offset;
}

template <typename T>
double number(T element) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(element);
  } else {
    return to_float(element);
  }
}

// Calls `use` with a pointer to the first element, in the tensor's type.
template <typename Use>
void visit_elements(const Tensor& tensor, const Use& use) {
  switch (tensor.dtype()) {
    case DType::f32:
      return use(tensor.data_as<float>());
    case DType::bf16:
      return use(tensor.data_as<BFloat16>());
    case DType::f16:
      return use(tensor.data_as<Float16>());
    case DType::i32:
      return use(tensor.data_as<int32_t>());
    case DType::i64:
      return use(tensor.data_as<int64_t>());
    case DType::i8:
      return use(tensor.data_as<int8_t>());
    case DType::u8:
      return use(tensor.data_as<uint8_t>());
    case DType::f8e4m3:
      return use(tensor.data_as<Float8E4M3>());
    case DType::f8e5m2:
      return use(tensor.data_as<Float8E5M2>());
  }
}

}  // namespace

double element(const Tensor& tensor, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t offset = offset_of(tensor, i, j, k, l);
  if (!tensor.layout().is_rows()) {
    return packed_element(tensor, offset / tensor.size(-1), offset % tensor.size(-1));
  }
  double result = 0;
  visit_elements(tensor, [&](const auto* elements) { result = number(elements[offset]); });
  return result;
}

void set_element(const Tensor& tensor, double value, int64_t i, int64_t j, int64_t k, int64_t l) {
  const int64_t offset = offset_of(tensor, i, j, k, l);
  switch (tensor.dtype()) {
    case DType::f32:
      return store_element(tensor.data_as<float>() + offset, static_cast<float>(value));
    case DType::bf16:
      return store_element(tensor.data_as<BFloat16>() + offset, static_cast<float>(value));
    case DType::f16:
      return store_element(tensor.data_as<Float16>() + offset, static_cast<float>(value));
    case DType::i8:
      return store_element(tensor.data_as<int8_t>() + offset, static_cast<float>(value));
    case DType::f8e4m3:
      return store_element(tensor.data_as<Float8E4M3>() + offset, static_cast<float>(value));
    case DType::f8e5m2:
      return store_element(tensor.data_as<Float8E5M2>() + offset, static_cast<float>(value));
    case DType::i32:
      tensor.data_as<int32_t>()[offset] = static_cast<int32_t>(value);
      return;
    default:
      REPRISE_ASSERT(false, "no reference store to {}", dtype_name(tensor.dtype()));
  }
}

int64_t int_element(const Tensor& tensor, int64_t i, int64_t j) {
  return static_cast<int64_t>(element(tensor, i, j));
}

std::vector<RowIndex> all_rows(const Tensor& tensor) {
  const int leading = tensor.rank() - 1;
  const auto size = [&](int dim) { return dim < leading ? tensor.size(dim) : 1; };
  std::vector<RowIndex> rows;
  for (int64_t i = 0; i < size(0); ++i) {
    for (int64_t j = 0; j < size(1); ++j) {
      for (int64_t k = 0; k < size(2); ++k) rows.push_back({i, j, k});
    }
  }
  return rows;
}

double row_element(const Tensor& tensor, const RowIndex& row, int64_t column) {
  switch (tensor.rank()) {
    case 1:
      return element(tensor, column);
    case 2:
      return element(tensor, row.i, column);
    case 3:
      return element(tensor, row.i, row.j, column);
    default:
      return element(tensor, row.i, row.j, row.k, column);
  }
}

std::vector<double> row_elements(const Tensor& tensor, const RowIndex& row) {
  const int last = tensor.rank() - 1;
  std::vector<double> result;
  if (!tensor.layout().is_rows()) {
    for (int64_t c = 0; c < tensor.size(last); ++c) result.push_back(row_element(tensor, row, c));
    return result;
  }
  if (tensor.size(last) == 0) return result;
  std::array<int64_t, 4> index{row.i, row.j, row.k, 0};
  index.at(static_cast<size_t>(last)) = 0;
  const int64_t offset = offset_of(tensor, index[0], index[1], index[2], index[3]);
  const int64_t stride = tensor.stride(last);
  result.resize(static_cast<size_t>(tensor.size(last)));
  visit_elements(tensor, [&](const auto* elements) {
    for (size_t c = 0; c < result.size(); ++c) {
      result[c] = number(elements[offset + static_cast<int64_t>(c) * stride]);
    }
  });
  return result;
}

void set_row_element(const Tensor& tensor, double value, const RowIndex& row, int64_t column) {
  switch (tensor.rank()) {
    case 1:
      return set_element(tensor, value, column);
    case 2:
      return set_element(tensor, value, row.i, column);
    case 3:
      return set_element(tensor, value, row.i, row.j, column);
    default:
      return set_element(tensor, value, row.i, row.j, row.k, column);
  }
}

void fill_normal(const Tensor& tensor, std::mt19937& random, double deviation) {
  static const std::vector<double> table = [] {
    std::mt19937 own;
    std::normal_distribution<double> normal;
    std::vector<double> numbers(size_t{1} << 16);
    for (double& number : numbers) number = normal(own);
    return numbers;
  }();
  const int64_t width = tensor.num_elements() == 0 ? 0 : tensor.size(-1);
  for (const RowIndex& row : all_rows(tensor)) {
    for (int64_t i = 0; i < width; ++i) {
      set_row_element(tensor, table[random() % table.size()] * deviation, row, i);
    }
  }
}

}  // namespace reprise::kernels
