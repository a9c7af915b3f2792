// Attention of prompts on compute capability 9.0: FlashInfer's loop of products (wgmma), softmax
// and epilogue, behind loads by this project. Compiled only if the headers are available
// (REPRISE_FLASHINFER) and only for sm_90a.
// Source: flashinfer 0.7.2 attention/hopper/prefill_sm90.cuh, PrefillWithKVCacheKernel; differs in
// that a block computes one tile, which it finds itself, and that queries, keys and values are
// loaded by threads from this project's cache, without tensor maps.

// That file includes much of CUTLASS that nothing here uses.
#define FLASHINFER_CUTLASS_UTILS_CUH_
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/memory_sm80.h>
#include <cutlass/arch/reg_reconfig.h>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_conversion.h>
#include <cutlass/numeric_types.h>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/pipeline/pipeline.hpp>

#include <cute/tensor.hpp>

#include <flashinfer/attention/hopper/epilogue.cuh>
#include <flashinfer/attention/hopper/kernel_traits.cuh>
#include <flashinfer/attention/hopper/mainloop_mma.cuh>
#include <flashinfer/attention/hopper/named_barrier.cuh>

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/flashinfer_arguments.h"
#include "reprise/kernels/cuda/flashinfer_list.inl"
#include "reprise/kernels/cuda/flashinfer_prompt_tile.cuh"

namespace reprise::kernels::cuda {
namespace {

template <typename T>
struct CutlassOf;
template <>
struct CutlassOf<BFloat16> {
  using type = cutlass::bfloat16_t;
};
template <>
struct CutlassOf<Float16> {
  using type = cutlass::half_t;
};

/// FlashInfer's loop takes an "attention variant" with these members, and LoopParams.
struct ScaledSoftmax {
  float sm_scale_log2;

  template <int kRows>
  __device__ auto GetAttentionUpdater() const {
    return flashinfer::OnlineSoftmax<kRows, /*WITH_SCALE=*/true>(sm_scale_log2);
  }
  template <typename Params, typename Score>
  __device__ Score LogitsTransform(
      const Params&, Score score, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t) const {
    return score;
  }
};
struct LoopParams {
  int window_left;  // not read without windows
};

template <typename T, int kHeadDim>
using PromptTraits = flashinfer::AttentionKernelTraits</*USE_TMA_LOAD_KV=*/false,
                                                       kHeadDim,
                                                       kHeadDim,
                                                       FlashInferPrompts{kHeadDim}.tile_tokens(),
                                                       FlashInferPrompts::kTilePositions,
                                                       FlashInferPrompts::kStages,
                                                       typename CutlassOf<T>::type,
                                                       typename CutlassOf<T>::type,
                                                       typename CutlassOf<T>::type,
                                                       int32_t,
                                                       ScaledSoftmax>;

/// The threads that load. Each loads sixteen bytes of some rows of a tile.
template <typename T, int kHeadDim>
struct PromptLoader {
  using Traits = PromptTraits<T, kHeadDim>;
  using Element = typename Traits::DTypeQ;
  using Pipeline = typename Traits::MainloopPipeline;
  using State = typename Traits::PipelineState;
  static constexpr int kChunks = kHeadDim / 8;  // of sixteen bytes in a row
  static constexpr int kRows = static_cast<int>(FlashInferPrompts::kLoaders) / kChunks;
  static constexpr int kLoads = Traits::CTA_KV / kRows;
  static_assert(Traits::CTA_KV % kRows == 0 && Traits::CTA_Q % kRows == 0);
  static constexpr uint32_t kNowhere = 0xFFFFFFFFU;

  const AttentionKernelArguments& a;
  const PromptTile& tile;
  typename Traits::SharedStorage& storage;

  [[nodiscard]] __device__ int row() const { return thread_index() / kChunks; }
  [[nodiscard]] __device__ int chunk() const { return thread_index() % kChunks; }

  __device__ static void copy(Element* to, const void* from, bool is_there) {
    cutlass::arch::cp_async_zfill<16, cutlass::arch::CacheOperation::Global>(to, from, is_there);
  }

  __device__ void load_queries() const {
    using namespace cute;
    Tensor queries =
        make_tensor(make_smem_ptr(storage.smem_q.data()), typename Traits::SmemLayoutQ{});
    const auto* q = static_cast<const Element*>(a.q) + tile.r.first_token * a.q_token_stride +
                    tile.head * a.q_head_stride + chunk() * 8;
    REPRISE_UNROLL
    for (int i = 0; i < Traits::CTA_Q / kRows; ++i) {
      const int index = i * kRows + row();
      const int64_t token = int64_t{tile.index} * Traits::CTA_Q + index;
      const bool is_there = token < tile.r.num_tokens;
      copy(&queries(index, chunk() * 8), q + (is_there ? token : 0) * a.q_token_stride, is_there);
    }
    auto* barrier = reinterpret_cast<uint64_t*>(&storage.barrier_Q);
    cutlass::arch::cpasync_barrier_arrive(barrier);
    storage.barrier_Q.arrive();
  }

  /// The rows of the cache that hold this thread's positions of a tile.
  __device__ void find_rows(int tile_of_positions, uint32_t (&rows)[kLoads]) const {
    const int64_t kv_head = divide(tile.head, a.group_size).quotient;
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int64_t position = int64_t{tile_of_positions} * Traits::CTA_KV + i * kRows + row();
      rows[i] = position < tile.r.seq_len
                    ? static_cast<uint32_t>(cache_row_index(a, tile.r.request, kv_head, position))
                    : kNowhere;
    }
  }

  /// Loads a tile of keys or values into the next stage of a pipeline.
  template <typename Stages>
  __device__ void load(Pipeline& pipeline,
                       State& state,
                       Stages stages,
                       const void* cache,
                       const uint32_t (&rows)[kLoads]) const {
    pipeline.producer_acquire(state);
    const auto* from = static_cast<const Element*>(cache) + chunk() * 8;
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const bool is_there = rows[i] != kNowhere;
      copy(&stages(i * kRows + row(), chunk() * 8, state.index()),
           from + static_cast<size_t>(is_there ? rows[i] : 0) * kHeadDim,
           is_there);
    }
    pipeline.producer_commit(state, cutlass::arch::cpasync_barrier_arrive);
    ++state;
  }

  /// All tiles from the last to the first: each tile's keys, and the values of the tile before.
  __device__ void run(Pipeline& keys, Pipeline& values) const {
    using namespace cute;
    Tensor key_stages =
        make_tensor(make_smem_ptr(storage.smem_k.data()), typename Traits::SmemLayoutK{});
    Tensor value_stages =
        make_tensor(make_smem_ptr(storage.smem_v.data()), typename Traits::SmemLayoutV{});
    State key_state = cutlass::make_producer_start_state<Pipeline>();
    State value_state = cutlass::make_producer_start_state<Pipeline>();
    uint32_t rows[2][kLoads];  // of the values' tile, and of the keys'
    find_rows(tile.num_tiles - 1, rows[0]);
    load(keys, key_state, key_stages, a.key_cache, rows[0]);
    // The threads that multiply have arrived at this barrier, and will again.
    cutlass::arch::NamedBarrier::sync(Traits::NUM_MMA_THREADS + Traits::NUM_PRODUCER_THREADS,
                                      static_cast<int>(flashinfer::NamedBarriers::kQueryEmpty));
    load_queries();
    for (int i = tile.num_tiles - 2; i >= 0; --i) {
      find_rows(i, rows[1]);
      load(keys, key_state, key_stages, a.key_cache, rows[1]);
      load(values, value_state, value_stages, a.value_cache, rows[0]);
      REPRISE_UNROLL
      for (int j = 0; j < kLoads; ++j) rows[0][j] = rows[1][j];
    }
    load(values, value_state, value_stages, a.value_cache, rows[0]);
    keys.producer_tail(key_state);
    values.producer_tail(value_state);
  }
};

template <typename T, int kHeadDim>
using PromptResults = flashinfer::CollectiveEpilogue<PromptTraits<T, kHeadDim>>;

template <typename T, int kHeadDim>
__device__ typename PromptResults<T, kHeadDim>::Params prompt_results(
    const AttentionKernelArguments& a) {
  const auto heads = static_cast<int>(a.kv_heads * a.group_size);
  const auto tokens = static_cast<int>(a.num_tokens);
  return {
      static_cast<typename CutlassOf<T>::type*>(a.out),
      flashinfer::get_gmem_layout(tokens, heads, kHeadDim, a.out_token_stride, a.out_head_stride),
      nullptr,  // no logarithms of the weights
      flashinfer::get_lse_gmem_layout(tokens, heads)};
}

/// The threads that multiply.
template <typename T, int kHeadDim, typename Storage, typename Pipeline>
__device__ void multiply_prompt_tile(const AttentionKernelArguments& a,
                                     const PromptTile& tile,
                                     Storage& storage,
                                     Pipeline& keys,
                                     Pipeline& values) {
  using namespace cute;
  using Traits = PromptTraits<T, kHeadDim>;
  // Source: SparseCollectiveMainloop::UseSchedulerBarrier, for elements of two bytes.
  using Turns = flashinfer::WarpScheduler<Traits, /*UseSchedulerBarrier=*/true>;
  using TileShape = typename Traits::TileShape_PDV;
  const int thread = thread_index() - static_cast<int>(FlashInferPrompts::kLoaders);
  const auto tokens = static_cast<int>(tile.r.num_tokens);
  const auto positions = static_cast<int>(tile.r.seq_len);
  const auto kv_head = static_cast<int>(divide(tile.head, a.group_size).quotient);
  Turns::mma_init();
  typename Traits::PipelineState key_state;
  typename Traits::PipelineState value_state;
  typename Traits::TiledMmaPV product;
  Tensor sums = partition_fragment_C(product, select<0, 1>(TileShape{}));
  ScaledSoftmax variant{a.scale * kLog2E};
  auto softmax =
      variant.template GetAttentionUpdater<2 * (2 * Traits::CTA_Q / Traits::NUM_MMA_THREADS)>();
  constexpr bool kWindow = false, kCausal = true, kItems = false;
  flashinfer::mma_f16<Traits, kWindow, kCausal, kItems, Turns>(LoopParams{-1},
                                                               variant,
                                                               keys,
                                                               values,
                                                               key_state,
                                                               value_state,
                                                               sums,
                                                               softmax,
                                                               tile.num_tiles,
                                                               /*swa_begin_kv_tile_idx=*/0,
                                                               /*swa_end_kv_tile_idx=*/-1,
                                                               thread,
                                                               /*work_idx=*/0,
                                                               tile.index,
                                                               storage,
                                                               tokens,
                                                               positions,
                                                               tile.head,
                                                               kv_head,
                                                               /*prefix_len=*/0,
                                                               /*token_pos_in_items=*/nullptr);
  const auto first_token = static_cast<int>(tile.r.first_token);
  PromptResults<T, kHeadDim>().store(
      prompt_results<T, kHeadDim>(a),
      sums,
      softmax.get_lse(),
      storage,
      product,
      thread,
      cute::tuple{tile.index, tile.head, kv_head, first_token, 0, tokens, positions, 0});
}

/// The grid is max_tiles * heads. \pre causal, without a window; q and out are aligned to sixteen
/// bytes and so are their strides
template <typename T, int kHeadDim>
__device__ void flashinfer_prompts(const CudaAttentionArguments& arguments) {
  using Traits = PromptTraits<T, kHeadDim>;
  using Pipeline = typename Traits::MainloopPipeline;
  using Storage = typename Traits::SharedStorage;
  static_assert(Traits::NUM_THREADS == FlashInferPrompts{kHeadDim}.threads());
  static_assert(sizeof(Storage) == FlashInferPrompts{kHeadDim}.shared_bytes());
  // The swizzled layouts repeat every 1024 bytes.
  extern __shared__ __align__(1024) char prompt_memory[];
  auto& storage = *reinterpret_cast<Storage*>(prompt_memory);
  const AttentionKernelArguments& a = arguments.call;
  zero_padding<T>(a, a.query_start_loc[a.num_reqs]);
  const PromptTile tile = prompt_tile<kHeadDim>(arguments);
  if (tile.num_tiles == 0) return;  // there are fewer tiles than blocks

  const bool loads = thread_index() < static_cast<int>(FlashInferPrompts::kLoaders);
  typename Pipeline::Params params;
  params.role = loads ? Pipeline::ThreadCategory::Producer : Pipeline::ThreadCategory::Consumer;
  params.producer_arv_count = FlashInferPrompts::kLoaders;
  params.consumer_arv_count = Traits::NUM_MMA_THREADS;
  if (thread_index() == 0) {
    storage.barrier_Q.init(FlashInferPrompts::kLoaders);
    storage.barrier_O.init(1);  // nothing waits for it: a block has one tile
  }
  Pipeline keys(storage.pipeline_k, params);  // makes the barriers visible
  Pipeline values(storage.pipeline_v, params);
  sync_block();
  if (loads) {
    cutlass::arch::warpgroup_reg_dealloc<72>();
    PromptLoader<T, kHeadDim>{a, tile, storage}.run(keys, values);
  } else {
    cutlass::arch::warpgroup_reg_alloc<Traits::NUM_WARPS == 12 ? 216 : 144>();
    multiply_prompt_tile<T, kHeadDim>(a, tile, storage, keys, values);
  }
}

}  // namespace

#define REPRISE_CUDA_DEFINE(type, T, head_dim)                                           \
  extern "C" __global__ void __launch_bounds__(FlashInferPrompts{head_dim}.threads(), 1) \
      reprise_flashinfer_prompts_##head_dim##_##type(                                    \
          const __grid_constant__ CudaAttentionArguments arguments) {                    \
    let_next_kernel_begin();                                                             \
    wait_for_earlier_kernels();                                                          \
    flashinfer_prompts<T, head_dim>(arguments);                                          \
  }
REPRISE_FLASHINFER_PROMPTS(REPRISE_CUDA_DEFINE)
#undef REPRISE_CUDA_DEFINE

}  // namespace reprise::kernels::cuda
