#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// Matrix products of many rows by cuBLASLt.
///
/// No choice happens in a capture. The first product with a weight's shape chooses algorithms for
/// all numbers of rows by the library's heuristic: one for each power of two to which the rows are
/// rounded up. Algorithms that divide a sum between blocks are allowed for up to 128 rows, with
/// parts in float32. The algorithm gives the number of parts, so the bits of a row depend only on
/// the algorithm (docs/gpu.md). All products share one workspace, which the constructor allocates.
///
/// A GemmLibrary belongs to one thread and one stream and owns its descriptors. In a steady state
/// multiply() allocates nothing.
class GemmLibrary {
 public:
  /// The smallest number of rows that the library computes. For fewer rows the project's own
  /// kernels are as fast, and include norms, residual sums and caches.
  static constexpr int64_t kFewestRows = 9;

  /// \throws DeviceError, OutOfMemory
  GemmLibrary(const CublasLtApi& api, device::cuda::CudaStream& stream);
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  ~GemmLibrary();

  /// out = x weight^T + bias, rounded once to out's type (that of x, or float32).
  /// \returns false and launches nothing for fewer than kFewestRows rows or more than 65,536, for
  /// addresses that are not multiples of 16 bytes, and for shapes without an algorithm in the
  /// library
  /// \throws CaptureError for an algorithm whose first use would be in a capture, DeviceError
  [[nodiscard]] bool multiply(const Tensor& x,       // [num_tokens, in], rows may be strided
                              const Tensor& weight,  // [out, in]
                              const Tensor& bias,    // [out] or undefined
                              const Tensor& out);    // [num_tokens, out], rows may be strided

  /// The scratch memory of all products.
  [[nodiscard]] device::BufferView workspace() const noexcept { return workspace_.view(); }

 private:
  // The powers of two to which rows are rounded up, from kFewestRows to more rows than any step
  // has.
  static constexpr int kFirstPower = 4;
  static constexpr int kLastDividedPower = 7;  // up to 128 rows
  static constexpr int kLastPower = 16;

  // The key for all numbers of rows: columns, depth, strides of x and out, types of x and out,
  // whether with bias.
  using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, DType, DType, bool>;
  struct Algorithm {
    cublasLtMatmulAlgo_t algorithm{};
    bool is_possible = false;
    bool was_used = false;  // the code of the algorithm is on the GPU
  };
  /// The library's descriptors for products of one shape. It owns them.
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
  void launch(Plan& plan,
              Algorithm& algorithm,
              const Tensor& x,
              const Tensor& weight,
              const Tensor& out,
              std::span<const device::BufferUse> uses);
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
