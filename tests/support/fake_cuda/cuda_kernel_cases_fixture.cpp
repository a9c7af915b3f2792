#include "tests/support/fake_cuda/host_kernels_fixture.h"
#include "tests/support/kernels/kernel_test_fixture.h"

// The cases of the kernels' tests: the CUDA kernels on the host. They sum in their own order. So
// they are compared with the reference, like every instruction set, and not bit for bit with the
// CPU's kernels.
namespace reprise::kernels {

const KernelTable& kernels_of(const KernelCase& /*test_case*/) {
  return cuda::row_kernels_on_host();
}

std::vector<KernelCase> all_kernel_cases() {
  return {{Isa::scalar, DType::f32}, {Isa::scalar, DType::bf16}, {Isa::scalar, DType::f16}};
}

}  // namespace reprise::kernels
