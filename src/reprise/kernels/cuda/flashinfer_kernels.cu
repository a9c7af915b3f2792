// Kernels around FlashInfer's device functions for attention, with this project's plans, division
// of work, cache and launches. Compiled only if its headers are available (REPRISE_FLASHINFER);
// they are Apache-2.0 and not part of this tree.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/variants.cuh>

#include "reprise/kernels/cuda/flashinfer_arguments.h"
#include "reprise/kernels/cuda/flashinfer_list.inl"
#include "reprise/kernels/cuda/flashinfer_tile.cuh"
#include "reprise/kernels/cuda/planned_attention_kernels.cuh"

namespace reprise::kernels::cuda {
namespace {

/// The same value for every index, where FlashInfer reads a table.
struct Everywhere {
  uint32_t value;

  __device__ uint32_t operator[](uint32_t) const { return value; }
  __device__ uint32_t operator*() const { return value; }
};

/// The cache of one request in the form that FlashInfer reads: a batch of one request.
template <typename T>
struct CacheOfRequest {
  struct PageSize {
    uint32_t value;

    __device__ void divmod(uint32_t n, uint32_t& quotient, uint32_t& rest) const {
      quotient = n / value;
      rest = n % value;
    }
    __device__ friend uint32_t operator*(uint32_t n, const PageSize& size) {
      return n * size.value;
    }
  };
  struct PageRange {
    int32_t num_pages;

    __device__ int32_t operator[](uint32_t request) const { return request == 0 ? 0 : num_pages; }
  };

  PageSize page_size;
  PageRange indptr;
  uint32_t seq_len;
  uint32_t kv_heads;
  uint32_t head_dim;
  const int32_t* pages;
  T* k_data;
  T* v_data;
  static constexpr uint32_t batch_size = 1;
  static constexpr const int32_t* rope_pos_offset = nullptr;

  __device__ uint32_t get_length(uint32_t) const { return seq_len; }
  __device__ size_t protective_get_kv_offset(
      int32_t page, uint32_t kv_head, uint32_t entry, uint32_t, int32_t num_pages) const {
    if (page >= num_pages) return 0;
    const size_t block = static_cast<size_t>(pages[page]);
    return ((block * kv_heads + kv_head) * page_size.value + entry) * head_dim;
  }
};

/// The parameters ("params" in FlashInfer) of one item of a plan.
template <typename T, typename Out>
struct ItemParams {
  using DTypeQ = T;
  using DTypeKV = T;
  using DTypeO = Out;
  using IdType = int32_t;

  const T* q;
  CacheOfRequest<T> paged_kv;
  Out* o;      // [heads, head_dim]
  float* lse;  // [heads], or nullptr
  uint32_t num_qo_heads;
  uint32_t q_stride_n;
  uint32_t q_stride_h;
  float sm_scale;
  Everywhere request_indices;
  Everywhere kv_tile_indices;
  Everywhere kv_chunk_size_ptr;
  bool partition_kv;
  static constexpr const bool* block_valid_mask = nullptr;
  static constexpr uint32_t padded_batch_size = 1;
  static constexpr int32_t window_left = -1;

  __device__ uint32_t get_qo_len(uint32_t) const { return 1; }
  __device__ uint32_t get_kv_len(uint32_t) const { return paged_kv.seq_len; }
};

template <typename Out, typename T, uint32_t kHeadDim, uint32_t kGroupSize>
__device__ void decode_item(const AttentionKernelArguments& a,
                            const PlannedItem& item,
                            int64_t kv_head,
                            uint32_t part_index,
                            uint32_t positions_per_part,
                            Out* out,
                            float* lse) {
  constexpr FlashInferBlock kBlock{kHeadDim, kGroupSize};
  const ItemParams<T, Out> params = {
      .q = static_cast<const T*>(a.q) + item.r.first_token * a.q_token_stride,
      .paged_kv = {.page_size = {static_cast<uint32_t>(a.block_size)},
                   .indptr = {static_cast<int32_t>(ceil_div(item.r.seq_len, a.block_size))},
                   .seq_len = static_cast<uint32_t>(item.r.seq_len),
                   .kv_heads = static_cast<uint32_t>(a.kv_heads),
                   .head_dim = kHeadDim,
                   .pages = a.block_table + item.r.request * a.block_table_stride,
                   .k_data = static_cast<T*>(const_cast<void*>(a.key_cache)),
                   .v_data = static_cast<T*>(const_cast<void*>(a.value_cache))},
      .o = out,
      .lse = lse,
      .num_qo_heads = static_cast<uint32_t>(a.kv_heads * a.group_size),
      .q_stride_n = static_cast<uint32_t>(a.q_token_stride),
      .q_stride_h = static_cast<uint32_t>(a.q_head_stride),
      .sm_scale = a.scale,
      .request_indices = {0},
      .kv_tile_indices = {part_index},
      .kv_chunk_size_ptr = {positions_per_part},
      .partition_kv = lse != nullptr};
  const uint32_t thread = threadIdx.x;
  flashinfer::BatchDecodeWithPagedKVCacheDevice<
      flashinfer::PosEncodingMode::kNone,
      FlashInferBlock::kStages,
      kBlock.tile_size(),
      kBlock.vec_size(),
      kBlock.bdx(),
      kBlock.bdy(),
      kBlock.bdz(),
      flashinfer::DefaultAttention<false, false, false, false>>(
      params,
      reinterpret_cast<uint8_t*>(shared_memory()),
      /*bx=*/0,
      static_cast<uint32_t>(kv_head),
      thread % kBlock.bdx(),
      thread / kBlock.bdx() % kBlock.bdy(),
      thread / (kBlock.bdx() * kBlock.bdy()));
  sync_block();  // before the next item uses the shared memory
}

/// The results of a part: [heads, head_dim] values, then [heads] logarithms (base 2) of the
/// weights.
__device__ float* results_of(const PlannedAttentionArguments& p, int64_t part) {
  return partial_of(p, part, 0);
}
__device__ float* weights_of(const PlannedAttentionArguments& p, int64_t part) {
  return results_of(p, part) + p.call.kv_heads * p.call.group_size * p.call.head_dim;
}

/// \pre every request has one token; the heads of q, out and partials are contiguous
template <typename Element, uint32_t kHeadDim, uint32_t kGroupSize>
__device__ void flashinfer_decode(const PlannedAttentionArguments& p) {
  using T = Native<Element>;
  const AttentionKernelArguments& a = p.call;
  const auto positions = static_cast<uint32_t>(AttentionPlan(p.plan).header.positions_per_part);
  for_each_item<Element>(p, [&](const PlannedItem& item, int64_t kv_head) {
    if (item.r.num_tokens != 1) {  // this kernel does not support the batch: the rows become NaN
      fill_rows<Element>(a,
                         item.r.first_token + item.begin,
                         item.r.first_token + item.end,
                         kv_head * kGroupSize,
                         (kv_head + 1) * kGroupSize,
                         float_of(0x7FC00000U));
    } else if (item.part < 0) {
      T* out = static_cast<T*>(a.out) + item.r.first_token * a.out_token_stride;
      decode_item<T, T, kHeadDim, kGroupSize>(a, item, kv_head, 0, 0, out, nullptr);
    } else {
      decode_item<float, T, kHeadDim, kGroupSize>(
          a,
          item,
          kv_head,
          static_cast<uint32_t>(item.first_position) / positions,
          positions,
          results_of(p, item.part),
          weights_of(p, item.part));
    }
  });
}

/// Merges the parts of a request into its row, in the order of the positions.
template <typename Element>
__device__ void flashinfer_merge(const PlannedAttentionArguments& p) {
  const AttentionKernelArguments& a = p.call;
  const AttentionPlan plan(p.plan);
  if (plan.header.num_parts == 0 || !plan.fits(a)) return;
  const int64_t heads = a.kv_heads * a.group_size;
  for (int64_t unit = block_index(); unit < plan.header.num_reqs * heads; unit += grid_size()) {
    const PlannedRequest& r = plan.requests[unit / heads];
    if (r.first_part < 0 || !plan.fits(a, unit / heads)) continue;
    const int64_t head = unit % heads;
    const int64_t parts = ceil_div(r.seq_len, plan.header.positions_per_part);
    float largest = kLowest;
    for (int64_t part = 0; part < parts; ++part) {
      const float weight = weights_of(p, r.first_part + part)[head];
      largest = weight > largest ? weight : largest;
    }
    Element* out = static_cast<Element*>(a.out) + r.first_token * a.out_token_stride +
                   head * a.out_head_stride;
    for (int64_t d = thread_index(); d < a.head_dim; d += num_threads()) {
      float sum = 0;
      float total = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const float weight = exponential_2(weights_of(p, r.first_part + part)[head] - largest);
        sum = multiply_add(results_of(p, r.first_part + part)[head * a.head_dim + d], weight, sum);
        total += weight;
      }
      put(out + d, sum / total);
    }
  }
}

}  // namespace

#define REPRISE_CUDA_DEFINE(name, threads, shared, ...)                             \
  extern "C" __global__ void __launch_bounds__(threads)                             \
      reprise_##name(const __grid_constant__ PlannedAttentionArguments arguments) { \
    __VA_ARGS__(arguments);                                                         \
  }
REPRISE_FLASHINFER_KERNELS(REPRISE_CUDA_DEFINE)
#undef REPRISE_CUDA_DEFINE

// At least three blocks fit on a multiprocessor with 228 KB, so they get few enough registers.
#define REPRISE_CUDA_DEFINE(type, T, head_dim)                                            \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, head_dim > 128 ? 2 : 3) \
      reprise_flashinfer_attention_##head_dim##_##type(                                   \
          const __grid_constant__ CudaAttentionArguments arguments) {                     \
    let_next_kernel_begin();                                                              \
    wait_for_earlier_kernels();                                                           \
    flashinfer_attention<T, head_dim>(arguments);                                         \
  }
REPRISE_FLASHINFER_HEADS(REPRISE_CUDA_DEFINE)
#undef REPRISE_CUDA_DEFINE

}  // namespace reprise::kernels::cuda
