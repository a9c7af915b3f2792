#include "tests/support/fake_cuda/flashinfer_on_host_fixture.h"

#include "tests/support/fake_cuda/host_block_fixture.h"

#if defined(REPRISE_FLASHINFER_ON_HOST)
#include "tests/support/fake_cuda/flashinfer_words.h"
#else
#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/flashinfer_arguments.h"
#endif
#include "reprise/kernels/cuda/flashinfer_list.inl"
#include "reprise/kernels/cuda/flashinfer_prompt_tile.cuh"

namespace reprise::kernels::cuda {
namespace {

#if !defined(REPRISE_FLASHINFER_ON_HOST)
// Stands for FlashInfer's functions where their headers are missing: the project's own tile, with
// the same division of work.
template <typename T, int kHeadDim>
void flashinfer_attention(const CudaAttentionArguments& arguments) {
  attend_shares<T, kHeadDim>(
      arguments,
      arguments.is_uniform != 0,
      [](const auto& a, const auto& tile, int kv_head, const auto& part, const auto& act) {
        attend_tile<T, kHeadDim, CacheElements::of_model>(a, tile, kv_head, part, act);
      });
}
#endif

/// Stands for FlashInfer's loop for prompts, which only a GPU of compute capability 9.0 runs: the
/// rows of the same tiles, one by one.
template <typename T, int kHeadDim>
void attend_prompts(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  constexpr auto kTokens = static_cast<int>(FlashInferPrompts{kHeadDim}.tile_tokens());
  zero_padding<T>(a, a.query_start_loc[a.num_reqs]);
  const PromptTile tile = prompt_tile<kHeadDim>(arguments);
  if (tile.num_tiles == 0) return;
  const int64_t end = min_of(int64_t{tile.index + 1} * kTokens, tile.r.num_tokens);
  for (int64_t token = int64_t{tile.index} * kTokens + warp_index(); token < end;
       token += num_warps()) {
    const int64_t last = min_of(context_of(tile.r, token),
                                int64_t{tile.num_tiles} * FlashInferPrompts::kTilePositions);
    store_row<T>(
        a,
        tile.r.first_token + token,
        tile.head,
        attend_row<T>(a, tile.r.request, tile.r.first_token + token, tile.head, {0, last, false}));
  }
}

template <typename T, int kHeadDim>
void run_prompts(const void* raw, uint32_t all, uint32_t begin, uint32_t end) {
  const auto& arguments = *static_cast<const CudaAttentionArguments*>(raw);
  run_on_host({.num_blocks = all,
               .first_block = begin,
               .last_block = end,
               .threads_per_block = FlashInferPrompts{kHeadDim}.threads(),
               .shared_bytes = FlashInferPrompts{kHeadDim}.shared_bytes(),
               .must_wait = true},
              [&] {
                wait_for_earlier_kernels();
                attend_prompts<T, kHeadDim>(arguments);
              });
}

template <typename T, int kHeadDim>
void run_attention(const void* raw, uint32_t all, uint32_t begin, uint32_t end) {
  const auto& arguments = *static_cast<const CudaAttentionArguments*>(raw);
  run_on_host({.num_blocks = all,
               .first_block = begin,
               .last_block = end,
               .threads_per_block = kAttentionThreads,
               .shared_bytes = FlashInferTile{kHeadDim}.shared_bytes(),
               .must_wait = true},
              [&] {
                wait_for_earlier_kernels();
                flashinfer_attention<T, kHeadDim>(arguments);
              });
}

}  // namespace

const std::map<std::string, HostKernel>& flashinfer_host_kernels() {
#define REPRISE_HOST_KERNEL(type, T, head_dim)          \
  {"reprise_flashinfer_attention_" #head_dim "_" #type, \
   {sizeof(CudaAttentionArguments), run_attention<T, head_dim>}},
#define REPRISE_HOST_PROMPTS(type, T, head_dim)       \
  {"reprise_flashinfer_prompts_" #head_dim "_" #type, \
   {sizeof(CudaAttentionArguments), run_prompts<T, head_dim>}},
  static const std::map<std::string, HostKernel> kernels = {REPRISE_FLASHINFER_HEADS(
      REPRISE_HOST_KERNEL) REPRISE_FLASHINFER_PROMPTS(REPRISE_HOST_PROMPTS)};
#undef REPRISE_HOST_KERNEL
#undef REPRISE_HOST_PROMPTS
  return kernels;
}

}  // namespace reprise::kernels::cuda
