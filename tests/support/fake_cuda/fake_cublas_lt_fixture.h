#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

namespace reprise::kernels::cuda {

/// A fake cuBLASLt for tests, on the host and on a fake driver's streams. It reads all matrices as
/// column-major and sums over the depth in order: in float32, or in int32 for int8. If it may, it
/// divides a sum of wide types into two parts, which lie in the workspace in between; only results
/// of up to kMostDividedColumns columns may have divided sums. It takes int8 and float8 E4M3 with
/// the sizes, formats and scales of the documentation, by the capability of the GPU, and finds no
/// algorithm for others. An algorithm may be used for the
/// shape for which it was found, with at most as many columns of the result, and for addresses with
/// at least the given alignment; any other use is a misuse of the driver. During a capture, only
/// products and descriptions are allowed, and the first use of an algorithm is a misuse too,
/// because it would load code.
///
/// Thread-safe: each thread may have handles of its own. Calls are numbered together with the
/// driver's calls, so FakeDriver::fail_call() fails them too. The library's functions have no
/// object parameter, so at most one FakeCublasLt may exist at a time. It must outlive its graphs.
///
/// Source of the rules: cuBLAS library documentation of CUDA 13, "Using the cuBLASLt API".
class FakeCublasLt {
 public:
  static constexpr uint64_t kMostDividedColumns = 128;

  explicit FakeCublasLt(device::cuda::FakeDriver& driver);
  FakeCublasLt(const FakeCublasLt&) = delete;
  FakeCublasLt& operator=(const FakeCublasLt&) = delete;
  ~FakeCublasLt();

  [[nodiscard]] const CublasLtApi& api() const noexcept;
  /// The number of products that were submitted or recorded, and of searches for algorithms.
  [[nodiscard]] uint64_t num_products() const noexcept;
  [[nodiscard]] uint64_t num_divided_products() const noexcept;
  [[nodiscard]] uint64_t num_searches() const noexcept;
  /// The number of handles, descriptors and preferences that were not destroyed.
  [[nodiscard]] size_t num_objects() const noexcept;
  /// The compute capability of the GPU: 80, 89, 90 (before this call) or 100. Float8 begins with
  /// 89, and only 90 takes scales of rows and of groups.
  void set_capability(int capability) noexcept;
  /// A search finds one algorithm for each of these times, which a product takes on the GPU's
  /// clock, in this order. Each sums in an order of its own. At first there is one of 1 us.
  void set_candidates(std::vector<double> microseconds);
  /// The version that the library reports; 130100 at first.
  void set_version(size_t version) noexcept;
  /// With true, a search finds no algorithm for any shape.
  void refuse(bool refuses) noexcept;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise::kernels::cuda
