#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA scalar
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/portable.inl"
#include "reprise/kernels/vector/panel_portable.inl"
#include "reprise/kernels/vector/float_codes_portable.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/table.inl"

}  // namespace

const KernelTable kScalarKernels = kTable;

}  // namespace reprise::kernels
