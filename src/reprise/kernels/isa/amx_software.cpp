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
#include "reprise/kernels/isa/table.inl"

constexpr KernelTable kTableInBf16 = table_in_bf16();

}  // namespace

AmxSoftwareTables amx_software_tables() noexcept {
  return {.with_invariance = &kTable, .without_invariance = &kTableInBf16};
}

}  // namespace reprise::kernels
