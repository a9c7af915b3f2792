#include <immintrin.h>

#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA_HAS_VNNI
#define REPRISE_ISA avx512_vnni
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/avx512.inl"
#include "reprise/kernels/vector/panel_avx512.inl"
#include "reprise/kernels/vector/float_codes_avx512.inl"
// clang-format on

#include "reprise/kernels/isa/kernels.inl"
#include "reprise/kernels/isa/table_entries.inl"

// The table of avx512 with other kernels that multiply bytes. Only these kernels are compiled here.
// The table is made before main() runs, because the table of avx512 is a constant of another
// source.
KernelTable with_products_of_bytes(KernelTable table) {
  table.isa = Isa::avx512_vnni;
#define REPRISE_BYTE_KERNEL(name) table.name = REPRISE_FLOAT_ENTRY(#name, run_##name);
  REPRISE_BYTE_KERNELS(REPRISE_BYTE_KERNEL)
#undef REPRISE_BYTE_KERNEL
  return table;
}

}  // namespace

const KernelTable kAvx512VnniKernels = with_products_of_bytes(kAvx512Kernels);

}  // namespace reprise::kernels
