#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA scalar
// clang-format off: the second file uses the first.
#include "reprise/kernels/vector/portable.inl"
#include "reprise/kernels/vector/panel_portable.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/table.inl"

}  // namespace

const KernelTable kScalarKernels = kTable;

}  // namespace reprise::kernels
