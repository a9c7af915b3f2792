#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <tuple>

/// What a fake of cuBLASLt computes, and what it refuses as the library does.
namespace reprise::kernels::cuda::fake_products {

/// Addresses that may differ between the search for an algorithm and its use.
struct Addresses {
  const void* bias = nullptr;
  const float* left_scale = nullptr;
  const float* right_scale = nullptr;

  friend bool operator==(const Addresses&, const Addresses&) = default;
};

struct Operation {
  bool has_integers = false;
  bool is_left_transposed = false;
  bool is_right_transposed = false;
  bool has_bias = false;
  bool has_fast_sums = false;
  cudaDataType_t bias_type = CUDA_R_32F;
  int32_t left_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t right_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  Addresses at;

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t stride = 0;  // between columns

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// With VEC128_32F, a scale belongs to so many elements of the depth.
constexpr uint64_t kScaledGroup = 128;

[[nodiscard]] size_t element_bytes(cudaDataType_t type);
[[nodiscard]] size_t bytes_of(const Layout& layout);
[[nodiscard]] bool has_mode(const Operation& operation, cublasLtMatmulMatrixScale_t mode);

/// The first column of the table of cublasLtMatmul() that a call violates; nullptr: none. cuBLAS
/// library documentation of CUDA 13: "cublasLtMatmul()" and "Narrow Precision Data Types Usage".
[[nodiscard]] const char* refusal(const Operation& operation,
                                  const Layout& left,
                                  const Layout& right,
                                  const Layout& out,
                                  int capability);

/// One matrix product with all arguments of its call.
struct Product {
  Operation operation;
  const void* left = nullptr;
  Layout left_layout;
  const void* right = nullptr;
  Layout right_layout;
  void* out = nullptr;
  Layout out_layout;
  // Nullptr: the sums are not divided. Otherwise [2, columns, rows], in the workspace.
  float* parts = nullptr;
  uint64_t candidate = 0;  // decides where a sum begins, so each has bits of its own

  [[nodiscard]] uint64_t depth() const {
    return operation.is_left_transposed ? left_layout.rows : left_layout.columns;
  }
  [[nodiscard]] bool fits() const {
    const auto& [l, r, d] = std::tie(left_layout, right_layout, out_layout);
    return (operation.is_left_transposed ? l.columns : l.rows) == d.rows &&
           (operation.is_right_transposed ? r.columns : r.rows) == depth() &&
           (operation.is_right_transposed ? r.rows : r.columns) == d.columns;
  }
  void run() const;

 private:
  /// \pre the left operand is transposed, and the right one is not
  void run_integers() const;
};

}  // namespace reprise::kernels::cuda::fake_products
