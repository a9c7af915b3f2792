#include "reprise/device/cpu/cpu_features.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {

const KernelTable& kernels_of(const KernelCase& test_case) { return kernel_table(test_case.isa); }

std::vector<KernelCase> kernel_cases_of_bytes() {
  std::vector<KernelCase> cases;
  std::vector<Isa> isas = supported_isas(device::detect_cpu_features());
  isas.push_back(Isa::amx_software);
  for (Isa isa : isas) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) cases.push_back({isa, dtype});
  }
  return cases;
}

std::vector<KernelCase> all_kernel_cases() {
  std::vector<KernelCase> cases = kernel_cases_of_bytes();
  std::erase_if(cases, [](const KernelCase& one) { return one.isa == Isa::avx512_vnni; });
  return cases;
}

std::vector<KernelCase> attention_kernel_cases() {
  std::vector<KernelCase> cases = all_kernel_cases();
  std::erase_if(cases, [](const KernelCase& one) {
    return one.isa == Isa::amx_software && one.dtype != DType::bf16;
  });
  return cases;
}

}  // namespace reprise::kernels
