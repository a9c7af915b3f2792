#include "tests/support/fake_cuda/fake_products_fixture.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "reprise/base/element.h"

namespace reprise::kernels::cuda::fake_products {
namespace {

float read(const void* data, cudaDataType_t type, int64_t index) {
  switch (type) {
    case CUDA_R_16BF:
      return to_float(static_cast<const BFloat16*>(data)[index]);
    case CUDA_R_16F:
      return to_float(static_cast<const Float16*>(data)[index]);
    case CUDA_R_8F_E4M3:
      return to_float(static_cast<const Float8E4M3*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

void write(void* data, cudaDataType_t type, int64_t index, float value) {
  switch (type) {
    case CUDA_R_16BF:
      store_element(static_cast<BFloat16*>(data) + index, value);
      break;
    case CUDA_R_16F:
      store_element(static_cast<Float16*>(data) + index, value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

/// The matrix as floats, each line of `depth` elements that one sum reads after the other.
std::vector<float> floats_along_depth(const void* data,
                                      const Layout& layout,
                                      uint64_t lines,
                                      uint64_t depth,
                                      bool has_lines_as_rows) {
  std::vector<float> found;
  found.reserve(lines * depth);
  for (uint64_t line = 0; line < lines; ++line) {
    for (uint64_t k = 0; k < depth; ++k) {
      const auto row = static_cast<int64_t>(has_lines_as_rows ? line : k);
      const auto column = static_cast<int64_t>(has_lines_as_rows ? k : line);
      found.push_back(read(data, layout.type, row + column * layout.stride));
    }
  }
  return found;
}

}  // namespace

size_t element_bytes(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
      return 1;
    default:
      return 2;
  }
}

size_t bytes_of(const Layout& layout) {
  return (static_cast<size_t>(layout.stride) * (layout.columns - 1) + layout.rows) *
         element_bytes(layout.type);
}

bool has_mode(const Operation& operation, cublasLtMatmulMatrixScale_t mode) {
  return operation.left_mode == mode && operation.right_mode == mode;
}

const char* refusal(const Operation& operation,
                    const Layout& left,
                    const Layout& right,
                    const Layout& out,
                    int capability) {
  const bool is_transposed_left = operation.is_left_transposed && !operation.is_right_transposed;
  const bool has_scales = operation.at.left_scale != nullptr || operation.at.right_scale != nullptr;
  const auto are_multiples = [](std::initializer_list<uint64_t> numbers, uint64_t of) {
    return std::ranges::all_of(numbers, [&](uint64_t number) { return number % of == 0; });
  };
  const auto stride = [](const Layout& layout) { return static_cast<uint64_t>(layout.stride); };
  if (left.type != right.type) return "operands of two types";
  if (operation.has_integers || left.type == CUDA_R_8I || out.type == CUDA_R_32I) {
    if (!operation.has_integers || left.type != CUDA_R_8I || out.type != CUDA_R_32I) {
      return "int8, sums and results of other types than int32";
    }
    if (!is_transposed_left || has_scales || operation.has_bias) return "int8: not in TN, or more";
    return are_multiples({left.columns, left.rows, stride(left), stride(right), stride(out)}, 4)
               ? nullptr
               : "int8: sizes that are no multiples of 4";
  }
  if (left.type != CUDA_R_8F_E4M3) {
    return has_scales || operation.has_fast_sums ? "scales of wide types" : nullptr;
  }
  if (capability < 89) return "float8: the GPU has none";
  if (!is_transposed_left) return "float8: not in TN";
  const uint64_t out_bytes = element_bytes(out.type);
  if (!are_multiples(
          {left.columns, left.rows, stride(left), stride(right), stride(out) * out_bytes}, 16)) {
    return "float8: sizes that are no multiples of 16";
  }
  const bool is_wide = out.type == CUDA_R_32F;
  if (operation.has_bias && operation.bias_type != (is_wide ? CUDA_R_16BF : out.type)) {
    return "float8: a bias of another type";
  }
  if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)) return nullptr;
  if (capability != 90) return "float8: scales that only Hopper takes";
  if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)) return nullptr;
  if (!has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F)) return "float8: other scales";
  if (operation.has_fast_sums) return "float8: fast sums of groups";
  return are_multiples({left.columns, right.columns}, 4)
             ? nullptr
             : "float8: groups need numbers of rows that are multiples of 4";
}

void Product::run() const {
  if (operation.has_integers) return run_integers();
  const uint64_t rows = out_layout.rows;
  const uint64_t columns = out_layout.columns;
  const std::vector<float> left_lines =
      floats_along_depth(left, left_layout, rows, depth(), !operation.is_left_transposed);
  const std::vector<float> right_lines =
      floats_along_depth(right, right_layout, columns, depth(), operation.is_right_transposed);
  // Each candidate begins at another place and sums round to it.
  const auto sum_of = [&](uint64_t row, uint64_t column, uint64_t begin, uint64_t end) {
    const float* l = left_lines.data() + row * depth();
    const float* r = right_lines.data() + column * depth();
    if (begin == end) return 0.0F;
    const uint64_t first = begin + 3 * candidate % (end - begin);
    float sum = 0;
    for (uint64_t k = first; k < end; ++k) sum += l[k] * r[k];
    for (uint64_t k = begin; k < first; ++k) sum += l[k] * r[k];
    return sum;
  };
  const auto scaled_sum_of = [&](uint64_t row, uint64_t column) {
    const float* l = operation.at.left_scale;
    const float* r = operation.at.right_scale;
    if (l == nullptr) return sum_of(row, column, 0, depth());
    if (has_mode(operation, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)) {
      return l[row] * r[column] * sum_of(row, column, 0, depth());
    }
    float sum = 0;
    for (uint64_t k = 0; k < depth(); k += kScaledGroup) {
      const uint64_t group = k / kScaledGroup;
      sum += l[group * out_layout.rows + row] * r[group * out_layout.columns + column] *
             sum_of(row, column, k, std::min(k + kScaledGroup, depth()));
    }
    return sum;
  };
  const uint64_t results = columns * rows;
  const uint64_t middle = depth() / 2;
  for (uint64_t i = 0; parts != nullptr && i < results; ++i) {
    parts[i] = sum_of(i % rows, i / rows, 0, middle);
    parts[results + i] = sum_of(i % rows, i / rows, middle, depth());
  }
  for (uint64_t i = 0; i < results; ++i) {
    const uint64_t row = i % rows;
    const uint64_t column = i / rows;
    float sum = parts != nullptr ? parts[i] + parts[results + i] : scaled_sum_of(row, column);
    if (operation.has_bias) {
      sum += read(operation.at.bias, operation.bias_type, static_cast<int64_t>(row));
    }
    write(out,
          out_layout.type,
          static_cast<int64_t>(row) + static_cast<int64_t>(column) * out_layout.stride,
          sum);
  }
}

void Product::run_integers() const {
  const auto* codes = static_cast<const int8_t*>(left);
  const auto* more = static_cast<const int8_t*>(right);
  for (uint64_t column = 0; column < out_layout.columns; ++column) {
    for (uint64_t row = 0; row < out_layout.rows; ++row) {
      int32_t sum = 0;
      for (uint64_t k = 0; k < depth(); ++k) {
        sum += int32_t{codes[row * static_cast<uint64_t>(left_layout.stride) + k]} *
               more[column * static_cast<uint64_t>(right_layout.stride) + k];
      }
      static_cast<int32_t*>(out)[column * static_cast<uint64_t>(out_layout.stride) + row] = sum;
    }
  }
}

}  // namespace reprise::kernels::cuda::fake_products
