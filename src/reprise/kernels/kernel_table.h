#pragma once

#include <cstdint>

#include "reprise/device/kernel.h"
#include "reprise/kernels/isa.h"
#include "reprise/kernels/kernel_table.inl"
#include "reprise/tensor/dtype.h"

namespace reprise::kernels {

/// One kernel for each float type that activations may have.
struct FloatKernels {
  device::Kernel f32;
  device::Kernel bf16;
  device::Kernel f16;
};

/// Kernels between float and eight-bit types.
struct QuantKernels {
  FloatKernels i8;
  FloatKernels f8e4m3;
};

/// Every CPU kernel of one instruction set. The tables are constants: launches refer to the kernels
/// by address.
struct KernelTable {
  Isa isa;
#define X(name) FloatKernels name;
#define REPRISE_ROW_KERNEL(context, name, ...) FloatKernels name;
  REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, )
  REPRISE_CPU_KERNELS(X)
#undef REPRISE_ROW_KERNEL
#undef X
#define X(name) QuantKernels name;
  REPRISE_QUANT_KERNELS(X)
#undef X
  // The results of lm_head are float32.
  FloatKernels linear;
  FloatKernels lm_head;
  // These copy, so one kernel serves all types.
  device::Kernel gather_rows;
  device::Kernel panel_embedding;
  device::Kernel kv_write;
  // Takes ExpArguments and one block. No op uses it.
  device::Kernel exp;
  // Passes over one row of logits, with one block each (logit_passes/). No op uses them.
  device::Kernel logit_maxima;
  device::Kernel logit_weights;
  device::Kernel logit_mass;
};

/// The table of an instruction set. An executor chooses it once, at its construction, and it
/// determines the bits of every result. \pre this build has kernels for `isa` (see is_supported)
[[nodiscard]] const KernelTable& kernel_table(Isa isa);

/// Whether a row has the same bits in any batch.
enum class BatchInvariance : uint8_t { required, not_required };
/// The same table or, if batch invariance is not required, one that has faster kernels on some
/// instruction sets.
[[nodiscard]] const KernelTable& kernel_table(Isa isa, BatchInvariance invariance);
/// Whether the two tables of an instruction set differ.
[[nodiscard]] bool has_kernels_without_invariance(Isa isa) noexcept;

/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] const device::Kernel& kernel_for(const FloatKernels& kernels, DType dtype);

/// \throws InvalidArgument when `eight_bits` is neither int8 nor float8, or `dtype` no float type
[[nodiscard]] const device::Kernel& kernel_for(const QuantKernels& kernels,
                                               DType eight_bits,
                                               DType dtype);

// One table per source file in isa/.
extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512VnniKernels;
extern const KernelTable kAvx512Bf16Kernels;
extern const KernelTable kAmxKernels;
// The tables of kernel_table(isa, BatchInvariance::not_required) that differ from those above.
extern const KernelTable kAmxKernelsInBf16;

/// The two tables of Isa::amx_software. Its kernels take a tenth of the program's compile time and
/// are slow, so only programs for tests have them: those that link the objects of the target
/// reprise_amx_software. In all others both pointers are null.
struct AmxSoftwareTables {
  const KernelTable* with_invariance = nullptr;
  const KernelTable* without_invariance = nullptr;
};
[[nodiscard]] AmxSoftwareTables amx_software_tables() noexcept;

}  // namespace reprise::kernels
