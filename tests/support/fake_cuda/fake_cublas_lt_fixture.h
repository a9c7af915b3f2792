#pragma once

#include <cstdint>
#include <memory>

#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

namespace reprise::kernels::cuda {

/// cuBLASLt for tests, on the host and on a fake driver's streams. Matrices are by columns,
/// whatever the callers mean by them, and sums are taken in the order of the depth, in float32. An
/// algorithm serves the shape that it was found for with at most as many columns of the result, on
/// addresses that are as aligned as it was told; anything else is a misuse of the driver. So is, in
/// a capture, every call but products and descriptions, and an algorithm's first use, which would
/// load its code.
///
/// Calls are numbered together with the driver's, so FakeDriver::fail_call() fails them too. The
/// library's functions know no object: there is at most one at a time. Must outlive its graphs.
///
/// Source of the rules: cuBLAS library documentation of CUDA 13, "Using the cuBLASLt API".
class FakeCublasLt {
 public:
  explicit FakeCublasLt(device::cuda::FakeDriver& driver);
  FakeCublasLt(const FakeCublasLt&) = delete;
  FakeCublasLt& operator=(const FakeCublasLt&) = delete;
  ~FakeCublasLt();

  [[nodiscard]] const CublasLtApi& api() const noexcept;
  /// Products submitted or recorded, and how often algorithms were asked for.
  [[nodiscard]] uint64_t num_products() const noexcept;
  [[nodiscard]] uint64_t num_searches() const noexcept;
  /// Handles, descriptors and preferences not yet given back.
  [[nodiscard]] size_t num_objects() const noexcept;
  /// Whether it has no algorithm for anything.
  void refuse(bool refuses) noexcept;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise::kernels::cuda
