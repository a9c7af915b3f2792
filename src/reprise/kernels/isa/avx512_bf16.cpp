#include <immintrin.h>

#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA_HAS_BF16
#define REPRISE_ISA_HAS_VNNI
#define REPRISE_ISA avx512_bf16
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/avx512.inl"
#include "reprise/kernels/vector/panel_avx512.inl"
#include "reprise/kernels/vector/float_codes_avx512.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/product_table.inl"

}  // namespace

const KernelTable kAvx512Bf16Kernels = with_products(kAvx512Kernels);

}  // namespace reprise::kernels
