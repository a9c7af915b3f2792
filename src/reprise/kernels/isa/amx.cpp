#include <immintrin.h>

#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

// REPRISE_ISA_HAS_BF16 is not defined: where tiles cannot be used, float32 is twice as fast as
// vdpbf16ps on processors with AMX.
#define REPRISE_ISA_HAS_VNNI
#define REPRISE_ISA_HAS_TILES
#define REPRISE_ISA amx
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/avx512.inl"
#include "reprise/kernels/vector/panel_avx512.inl"
#include "reprise/kernels/vector/float_codes_avx512.inl"
#include "reprise/kernels/vector/tile_shapes.inl"
#include "reprise/kernels/vector/tiles_amx.inl"
#include "reprise/kernels/vector/tile_layouts_avx512.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/product_table.inl"

}  // namespace

const KernelTable kAmxKernels = with_products(kAvx512Kernels);
const KernelTable kAmxKernelsInBf16 = in_bf16(kAmxKernels);

}  // namespace reprise::kernels
