#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA scalar
#include "reprise/kernels/vector/portable.inl"

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/table.inl"

}  // namespace

const KernelTable kScalarKernels = kTable;

}  // namespace reprise::kernels
