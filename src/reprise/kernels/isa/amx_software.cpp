#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA_HAS_TILES
#define REPRISE_ISA amx_software
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/portable.inl"
#include "reprise/kernels/vector/panel_portable.inl"
#include "reprise/kernels/vector/float_codes_portable.inl"
#include "reprise/kernels/vector/tile_shapes.inl"
#include "reprise/kernels/vector/tiles_software.inl"
#include "reprise/kernels/vector/tile_layouts_portable.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/product_table.inl"

}  // namespace

AmxSoftwareTables amx_software_tables() noexcept {
  static const KernelTable kWithInvariance = with_products(kScalarKernels);
  static const KernelTable kWithoutInvariance = in_bf16(kWithInvariance);
  return {.with_invariance = &kWithInvariance, .without_invariance = &kWithoutInvariance};
}

}  // namespace reprise::kernels
