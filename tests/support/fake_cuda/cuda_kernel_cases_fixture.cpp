#include "tests/support/fake_cuda/host_kernels_fixture.h"
#include "tests/support/kernels/kernel_test_fixture.h"

// The cases of the kernels' tests: the CUDA kernels on the host. Their sums run in an order of
// their own, so the oracle is what they are held to, as every instruction set is.
namespace reprise::kernels {

const KernelTable& kernels_of(const KernelCase& /*test_case*/) {
  return cuda::row_kernels_on_host();
}

std::vector<KernelCase> all_kernel_cases() {
  return {{Isa::scalar, DType::f32}, {Isa::scalar, DType::bf16}, {Isa::scalar, DType::f16}};
}

}  // namespace reprise::kernels
