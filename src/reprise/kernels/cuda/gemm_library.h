#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// Products of many rows by cuBLASLt.
///
/// Nothing is decided in a capture. The first product with a weight's shape chooses an algorithm
/// for every number of rows, by the library's heuristic: one for each power of two that the rows
/// are rounded up to. Algorithms that split the sum are left out, so what a row's bits depend on is
/// the algorithm alone (docs/gpu.md). All products share one workspace, allocated by the
/// constructor.
///
/// One thread and stream. Owns its descriptors; in a steady state multiply() allocates nothing.
class GemmLibrary {
 public:
  /// The least number of rows that is worth it. Up to 32 our own kernels read the weight once for
  /// all rows, which is all that such a product costs; beyond, they would read it again.
  static constexpr int64_t kFewestRows = 33;

  /// \throws DeviceError, OutOfMemory
  GemmLibrary(const CublasLtApi& api, device::cuda::CudaStream& stream);
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  ~GemmLibrary();

  /// out = x weight^T + bias, rounded once to out's type (that of x, or float32).
  /// \returns false, with nothing launched, for few rows (or more than 65,536), addresses that are
  /// not multiples of 16 bytes, and what the library has no algorithm for
  /// \throws CaptureError for an algorithm whose first use would be in a capture, DeviceError
  [[nodiscard]] bool multiply(const Tensor& x,       // [num_tokens, in], rows may be strided
                              const Tensor& weight,  // [out, in]
                              const Tensor& bias,    // [out] or undefined
                              const Tensor& out);    // [num_tokens, out], dense

 private:
  // Powers of two that rows are rounded up to, from that of kFewestRows to more than any step has.
  static constexpr int kFirstPower = 6;
  static constexpr int kLastPower = 16;

  // Of all numbers of rows: columns, depth, stride of x, type of x, type of out, whether with bias.
  using Shape = std::tuple<int64_t, int64_t, int64_t, DType, DType, bool>;
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm{};
    bool is_possible = false;
    bool was_used = false;  // its code is on the GPU
  };
  /// What the library wants to be told about products of one shape. Owns the descriptors.
  struct Plan {
    explicit Plan(const CublasLtApi& functions) : api(functions) {}
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan();

    const CublasLtApi& api;  // the GemmLibrary's
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t weight = nullptr;
    cublasLtMatrixLayout_t x = nullptr;
    cublasLtMatrixLayout_t out = nullptr;
    std::array<Algorithm, kLastPower - kFirstPower + 1> algorithms;
  };

  Plan& plan_of(const Shape& shape);
  void describe(const Shape& shape, Plan& plan) const;
  void choose_algorithms(Plan& plan) const;
  [[nodiscard]] Algorithm choose_algorithm(Plan& plan,
                                           int power,
                                           cublasLtMatmulPreference_t preference) const;
  [[nodiscard]] bool can_multiply(Plan& plan,
                                  int64_t num_rows,
                                  const cublasLtMatmulAlgo_t& algorithm) const;
  void set_rows(Plan& plan, int64_t num_rows) const;
  void launch(
      Plan& plan, Algorithm& algorithm, const Tensor& x, const Tensor& weight, const Tensor& out);
  void check(cublasStatus_t status, const char* call) const;
  template <typename Value>
  void set(cublasLtMatmulDesc_t operation,
           cublasLtMatmulDescAttributes_t name,
           const Value& value) const;

  CublasLtApi api_;
  device::cuda::CudaStream* stream_;  // the executor's
  device::Buffer workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, Plan> plans_;
};

}  // namespace reprise::kernels::cuda
