#include "reprise/kernels/cuda/flashinfer_table.h"

#include <algorithm>
#include <iterator>

#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/flashinfer_arguments.h"
#include "reprise/kernels/cuda/flashinfer_list.inl"

// Machine code of flashinfer_kernels.cu. Its first byte is 0 in a build without FlashInfer.
extern "C" const unsigned char reprise_flashinfer_image[];
// The same of flashinfer_prompts.cu.
extern "C" const unsigned char reprise_flashinfer_prompts_image[];

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

#define REPRISE_FLASHINFER_ENTRY(type, head_dim, group_size)              \
  FlashInferDecode{DType::type,                                           \
                   head_dim,                                              \
                   group_size,                                            \
                   &flashinfer_decode_##head_dim##x##group_size##_##type, \
                   &flashinfer_merge_##type},
constexpr FlashInferDecode kFlashInferDecode[] = {
    REPRISE_FLASHINFER_SHAPES(REPRISE_FLASHINFER_ENTRY)};
#undef REPRISE_FLASHINFER_ENTRY

#define REPRISE_FLASHINFER_DECLARE(type, T, head_dim)                           \
  constinit const Kernel flashinfer_attention_##head_dim##_##type{              \
      .name = "flashinfer_attention_" #head_dim "_" #type "_cuda",              \
      .cuda = {.image = reprise_flashinfer_image,                               \
               .function = "reprise_flashinfer_attention_" #head_dim "_" #type, \
               .threads_per_block = kAttentionThreads,                          \
               .shared_bytes = FlashInferTile{head_dim}.shared_bytes(),         \
               .start = device::CudaKernelCode::Start::early_if_asked}};
REPRISE_FLASHINFER_HEADS(REPRISE_FLASHINFER_DECLARE)
#undef REPRISE_FLASHINFER_DECLARE

#define REPRISE_FLASHINFER_ENTRY(type, T, head_dim) \
  FlashInferHeads{DType::type, head_dim, &flashinfer_attention_##head_dim##_##type},
constexpr FlashInferHeads kFlashInferHeads[] = {REPRISE_FLASHINFER_HEADS(REPRISE_FLASHINFER_ENTRY)};
#undef REPRISE_FLASHINFER_ENTRY

#define REPRISE_FLASHINFER_DECLARE(type, T, head_dim)                         \
  constinit const Kernel flashinfer_prompts_##head_dim##_##type{              \
      .name = "flashinfer_prompts_" #head_dim "_" #type "_cuda",              \
      .cuda = {.image = reprise_flashinfer_prompts_image,                     \
               .function = "reprise_flashinfer_prompts_" #head_dim "_" #type, \
               .threads_per_block = FlashInferPrompts{head_dim}.threads(),    \
               .shared_bytes = FlashInferPrompts{head_dim}.shared_bytes(),    \
               .start = device::CudaKernelCode::Start::early_if_asked}};
REPRISE_FLASHINFER_PROMPTS(REPRISE_FLASHINFER_DECLARE)
#undef REPRISE_FLASHINFER_DECLARE

#define REPRISE_FLASHINFER_ENTRY(type, T, head_dim)                 \
  FlashInferPromptKernel{DType::type,                               \
                         head_dim,                                  \
                         FlashInferPrompts{head_dim}.tile_tokens(), \
                         &flashinfer_prompts_##head_dim##_##type},
constexpr FlashInferPromptKernel kFlashInferPrompts[] = {
    REPRISE_FLASHINFER_PROMPTS(REPRISE_FLASHINFER_ENTRY)};
#undef REPRISE_FLASHINFER_ENTRY

/// Whether there are kernels of each type for these sizes of heads, and no others.
template <typename Kernels, typename Sizes>
constexpr bool are_for(const Kernels& kernels, const Sizes& sizes) {
  return std::size(kernels) == 2 * sizes.size() &&
         std::ranges::all_of(kernels, [&](const auto& kernel) {
           return std::ranges::find(sizes, kernel.head_dim) != sizes.end();
         });
}
static_assert(are_for(kFlashInferHeads, kLibraryDecodingHeads));
static_assert(are_for(kFlashInferPrompts, kLibraryPromptHeads));

}  // namespace

FlashInferKernels declared_flashinfer_kernels() {
  return {.planned = kFlashInferDecode, .heads = kFlashInferHeads, .prompts = kFlashInferPrompts};
}

FlashInferKernels flashinfer_kernels() {
  if (reprise_flashinfer_image[0] == 0) return {};
  FlashInferKernels kernels = declared_flashinfer_kernels();
  if (reprise_flashinfer_prompts_image[0] == 0) kernels.prompts = {};
  return kernels;
}

}  // namespace reprise::kernels::cuda
