#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// Scales of a product of float8 codes, which the library multiplies its sums with. Both operands
/// have scales of the same kind, or none.
struct CodeScales {
  Tensor x;       // float32[num_tokens], or float32[in / 128, num_tokens]
  Tensor weight;  // float32[out], or float32[in / 128, out]
};

/// Matrix products of many rows by cuBLASLt: of floats, of float8 codes (sums in float32) and of
/// int8 codes (exact sums in int32).
///
/// No choice happens in a capture. The first product with a weight's shape chooses algorithms for
/// all numbers of rows by the library's heuristic: one for each power of two to which the rows are
/// rounded up. Algorithms that divide a sum between blocks are allowed for up to 128 rows, with
/// parts in float32. The algorithm gives the number of parts, so the bits of a row depend only on
/// the algorithm (docs/gpu-kernels.md). All products share one workspace, which the constructor
/// allocates. A caller may also give an algorithm that it chose itself, for example by measurement.
///
/// A GemmLibrary belongs to one thread and one stream and owns its descriptors. In a steady state
/// multiply() allocates nothing.
class GemmLibrary {
 public:
  /// The smallest number of rows that the library computes. For fewer rows the project's own
  /// kernels are as fast, and include norms, residual sums and caches.
  static constexpr int64_t kFewestRows = 9;
  /// With scales of groups, the number of rows must be a multiple of this.
  static constexpr int64_t kGroupedRows = 4;

  enum class ScaleMode : uint8_t { none, of_rows, of_groups };
  /// What algorithms depend on besides the number of rows: columns, depth, strides of x and out,
  /// types of x and out, whether with bias, scales.
  using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, DType, DType, bool, ScaleMode>;

  /// \throws DeviceError, OutOfMemory
  GemmLibrary(const CublasLtApi& api, device::cuda::CudaStream& stream);
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;
  ~GemmLibrary();

  /// out = x weight^T + bias, rounded once to out's type: that of x, or float32; of float8 codes
  /// also bfloat16 or float16; of int8 codes only int32. `chosen`: the algorithm to use; nullptr,
  /// or one that the library refuses: the one for these rows.
  /// \returns false and launches nothing for more than 65,536 rows, for addresses that are not
  /// multiples of 16 bytes, and for shapes, types and scales without an algorithm in the library
  /// for this GPU; without a chosen algorithm also for fewer than kFewestRows rows
  /// \throws CaptureError for an algorithm whose first use would be in a capture, DeviceError
  [[nodiscard]] bool multiply(const Tensor& x,       // [num_tokens, in], rows may be strided
                              const Tensor& weight,  // [out, in]
                              const Tensor& bias,    // [out] or undefined
                              const Tensor& out,     // [num_tokens, out], rows may be strided
                              const CodeScales& scales = {},
                              const cublasLtMatmulAlgo_t* chosen = nullptr);
  /// Whether multiply() with these operands will compute the product. It launches nothing.
  /// \throws CaptureError for a shape that was not planned before a capture, DeviceError
  [[nodiscard]] bool can_multiply(const Tensor& x,
                                  const Tensor& weight,
                                  const Tensor& bias,
                                  const Tensor& out,
                                  const CodeScales& scales = {});

  /// The algorithms that the library's heuristic finds for so many rows, fastest first by its own
  /// estimate. \pre no capture \throws DeviceError
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> candidates(const Shape& shape, int64_t num_rows);
  /// Whether multiply() can use this algorithm for so many rows. \pre no capture
  /// \throws DeviceError
  [[nodiscard]] bool accepts(const Shape& shape,
                             int64_t num_rows,
                             const cublasLtMatmulAlgo_t& algorithm);
  /// The version of the library: 130100 is 13.1.0.
  [[nodiscard]] size_t version() const { return api_.get_version(); }

  /// The scratch memory of all products.
  [[nodiscard]] device::BufferView workspace() const noexcept { return workspace_.view(); }

 private:
  // The powers of two to which rows are rounded up, from kFewestRows to more rows than any step
  // has.
  static constexpr int kFirstPower = 4;
  static constexpr int kLastDividedPower = 7;  // up to 128 rows
  static constexpr int kLastPower = 16;

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
    bool has_integer_sums = false;
    int64_t row_step = 1;  // the number of rows must be a multiple
    std::array<Algorithm, kLastPower - kFirstPower + 1> algorithms;
    std::vector<Algorithm> chosen;  // the caller's; few
  };
  class Preference;

  Plan& plan_of(const Shape& shape);
  /// A plan with an algorithm for these operands, or nullptrs.
  struct Choice {
    Plan* plan = nullptr;
    Algorithm* algorithm = nullptr;
  };
  [[nodiscard]] Choice choose(const Tensor& x,
                              const Tensor& weight,
                              const Tensor& bias,
                              const Tensor& out,
                              const CodeScales& scales,
                              const cublasLtMatmulAlgo_t* chosen);
  void describe(const Shape& shape, Plan& plan) const;
  void describe_scales(ScaleMode mode, Plan& plan) const;
  void choose_algorithms(Plan& plan) const;
  [[nodiscard]] Algorithm choose_algorithm(Plan& plan, int power, Preference& preference) const;
  /// The heuristic's algorithms for so many rows. Empty: the library has none.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> search(Plan& plan,
                                                         int64_t num_rows,
                                                         Preference& preference) const;
  /// The algorithm of a call; nullptr: there is none.
  [[nodiscard]] Algorithm* algorithm_for(Plan& plan,
                                         int64_t num_rows,
                                         const cublasLtMatmulAlgo_t* chosen);
  [[nodiscard]] bool serves(Plan& plan,
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
