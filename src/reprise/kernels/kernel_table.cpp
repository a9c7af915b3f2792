#include "reprise/kernels/kernel_table.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"

namespace reprise::kernels {

const KernelTable& kernel_table(Isa isa) {
  switch (isa) {
    case Isa::amx_software:
      REPRISE_ASSERT(is_supported(isa, {}), "this program has no {} kernels", isa_name(isa));
      return *amx_software_tables().with_invariance;
    case Isa::scalar:
      return kScalarKernels;
#ifdef REPRISE_KERNELS_X86
    case Isa::avx2:
      return kAvx2Kernels;
    case Isa::avx512:
      return kAvx512Kernels;
    case Isa::avx512_vnni:
      return kAvx512VnniKernels;
    case Isa::avx512_bf16:
      return kAvx512Bf16Kernels;
    case Isa::amx:
      return kAmxKernels;
#else
    default:
      break;
#endif
  }
  REPRISE_ASSERT(false, "this build has no {} kernels", isa_name(isa));
  return kScalarKernels;
}

bool has_kernels_without_invariance(Isa isa) noexcept {
  return isa == Isa::amx || isa == Isa::amx_software;
}

const KernelTable& kernel_table(Isa isa, BatchInvariance invariance) {
  if (invariance == BatchInvariance::not_required) {
    if (isa == Isa::amx_software) return *amx_software_tables().without_invariance;
#ifdef REPRISE_KERNELS_X86
    if (isa == Isa::amx) return kAmxKernelsInBf16;
#endif
  }
  return kernel_table(isa);
}

const device::Kernel& kernel_for(const FloatKernels& kernels, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kernels.f32;
    case DType::bf16:
      return kernels.bf16;
    case DType::f16:
      return kernels.f16;
    default:
      throw InvalidArgument(
          fmt::format("{}: no kernel for {}; expected float32, bfloat16 or float16",
                      kernels.f32.name,
                      dtype_name(dtype)));
  }
}

const device::Kernel& kernel_for(const QuantKernels& kernels, DType eight_bits, DType dtype) {
  switch (eight_bits) {
    case DType::i8:
      return kernel_for(kernels.i8, dtype);
    case DType::f8e4m3:
      return kernel_for(kernels.f8e4m3, dtype);
    default:
      throw InvalidArgument(fmt::format("{}: no kernel for {}; expected int8 or float8_e4m3fn",
                                        kernels.i8.f32.name,
                                        dtype_name(eight_bits)));
  }
}

}  // namespace reprise::kernels
