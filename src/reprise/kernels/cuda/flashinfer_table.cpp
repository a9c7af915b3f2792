#include "reprise/kernels/cuda/flashinfer_table.h"

#include "reprise/kernels/cuda/flashinfer_arguments.h"
#include "reprise/kernels/cuda/flashinfer_list.inl"

// Machine code of flashinfer_kernels.cu. Its first byte is 0 in a build without FlashInfer.
extern "C" const unsigned char reprise_flashinfer_image[];

namespace reprise::kernels::cuda {
namespace {

using device::Kernel;

#define REPRISE_FLASHINFER_DECLARE(kernel, threads, shared, ...)            \
  constinit const Kernel kernel{.name = #kernel "_cuda",                    \
                                .cuda = {.image = reprise_flashinfer_image, \
                                         .function = "reprise_" #kernel,    \
                                         .threads_per_block = threads,      \
                                         .shared_bytes = shared}};
REPRISE_FLASHINFER_KERNELS(REPRISE_FLASHINFER_DECLARE)
#undef REPRISE_FLASHINFER_DECLARE

#define REPRISE_FLASHINFER_ENTRY(type, head_dim, group_size)               \
  FlashInferKernels{DType::type,                                           \
                    head_dim,                                              \
                    group_size,                                            \
                    &flashinfer_decode_##head_dim##x##group_size##_##type, \
                    &flashinfer_merge_##type},
constexpr FlashInferKernels kFlashInferKernels[] = {
    REPRISE_FLASHINFER_SHAPES(REPRISE_FLASHINFER_ENTRY)};
#undef REPRISE_FLASHINFER_ENTRY

}  // namespace

std::span<const FlashInferKernels> flashinfer_kernels() {
  if (reprise_flashinfer_image[0] == 0) return {};
  return kFlashInferKernels;
}

}  // namespace reprise::kernels::cuda
