// The launches of attention.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reprise/base/error.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

// Blocks of an attention launch that keep every multiprocessor busy.
constexpr int64_t kBlocksPerMultiprocessor = 4;

/// The number of parts of the positions, for a launch with so many tiles and heads.
int64_t max_parts(int64_t tiles, int64_t wanted_blocks) {
  return std::clamp<int64_t>(ceil_div(wanted_blocks, tiles), 1, kMostParts);
}

/// The largest number of tiles of a batch with this shape.
int64_t most_tiles(const AttentionKernelArguments& a, int64_t tile_rows) {
  return std::min(a.num_reqs, a.num_tokens) + a.num_tokens * a.group_size / tile_rows;
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % 16 == 0 && tensor.stride(0) % 8 == 0 &&
         tensor.stride(1) % 8 == 0;
}

bool has_codes(const AttentionCall& call) { return call.key_cache.dtype() != call.q.dtype(); }

/// The kernel on the tensor cores for this size of heads. nullptr: there is none.
const device::Kernel* fragment_kernel(const AttentionKernels& kernels, const AttentionCall& call) {
  if (!is_aligned(call.q)) return nullptr;
  const auto head = std::ranges::find(kFragmentHeads, call.q.size(2));
  if (head == kFragmentHeads.end()) return nullptr;
  const HeadKernels& of_cache = has_codes(call) ? kernels.of_codes : kernels.of_heads;
  return of_cache[static_cast<size_t>(head - kFragmentHeads.begin())];
}

/// Whether a batch of this shape has many tokens per request on average. Only the shape decides,
/// because a graph serves all batches of a shape.
bool has_many_rows(const AttentionKernelArguments& a) {
  return a.num_tokens * a.group_size > kAttentionWarpRows * a.num_reqs;
}

/// The kernel for requests of many tokens, which is correct for any batch. nullptr: another kernel
/// serves the shape.
const device::Kernel* prefill_kernel(const AttentionKernels& kernels,
                                     const AttentionKernelArguments& a,
                                     const AttentionCall& call) {
  const bool is_served = is_aligned(call.out) && a.scale > 0 && a.chunk_size == 0 &&
                         a.sinks == nullptr && a.soft_cap == 0 && !has_codes(call) &&
                         std::has_single_bit(static_cast<uint64_t>(a.block_size));
  return has_many_rows(a) && is_served ? fragment_kernel(kernels, call) : nullptr;
}

/// FlashInfer's kernels for the type and the heads of this call. nullptr: there are none.
const FlashInferHeads* flashinfer_heads(const FlashInferKernels& kernels,
                                        const AttentionCall& call) {
  if (!is_aligned(call.q) || has_codes(call)) return nullptr;
  const auto found = std::ranges::find_if(kernels.heads, [&](const FlashInferHeads& one) {
    return one.dtype == call.q.dtype() && one.head_dim == call.q.size(2);
  });
  return found == kernels.heads.end() ? nullptr : &*found;
}

/// FlashInfer's kernel for prompts of this shape, which prefill_kernel() serves too. nullptr: there
/// is none, or it would have too few tiles for the GPU. The project's own kernel divides long
/// contexts then.
const FlashInferPromptKernel* flashinfer_prompts(const CudaExecutorOptions& options,
                                                 const AttentionKernelArguments& a,
                                                 const AttentionCall& call) {
  if (a.sliding_window > 0) return nullptr;
  const std::span<const FlashInferPromptKernel> kernels = options.flashinfer.prompts;
  const auto found = std::ranges::find_if(kernels, [&](const FlashInferPromptKernel& one) {
    return one.dtype == call.q.dtype() && one.head_dim == a.head_dim;
  });
  if (found == kernels.end()) return nullptr;
  const int64_t tiles = a.num_tokens * a.kv_heads * a.group_size / found->tile_tokens;
  return 2 * tiles >= options.num_multiprocessors ? &*found : nullptr;
}

/// FlashInfer's kernels for an attention plan with one token per request. nullptr: there are none.
const FlashInferDecode* planned_flashinfer(std::span<const FlashInferDecode> kernels,
                                           const AttentionCall& call) {
  const Tensor& q = call.q;
  const Tensor& out = call.out;
  // FlashInfer writes head by head, and its parts of an odd number of heads are not aligned to 16
  // bytes.
  const bool fits = call.sliding_window == 0 && call.chunk_size == 0 && call.soft_cap == 0 &&
                    call.sinks == nullptr && !has_codes(call) && is_aligned(q) && is_aligned(out) &&
                    out.stride(1) == q.size(2) && q.size(1) % 2 == 0;
  if (!fits) return nullptr;
  const auto found = std::ranges::find_if(kernels, [&](const FlashInferDecode& one) {
    return one.dtype == q.dtype() && one.head_dim == q.size(2) &&
           one.group_size == q.size(1) / call.key_cache.size(1);
  });
  return found == kernels.end() ? nullptr : &*found;
}

/// The kernels for this latent attention. Its pointers are null if the call is not latent
/// attention, or none of the kernels can compute it.
LatentKernel latent_kernel(const AttentionCall& call) {
  const bool is_usual = call.key_cache.data() == call.value_cache.data() &&
                        call.key_cache.size(1) == 1 && call.sliding_window == 0 &&
                        call.chunk_size == 0 && call.soft_cap == 0 && call.sinks == nullptr &&
                        call.biases == nullptr && !call.is_bidirectional;
  const bool is_whole =
      is_aligned(call.q) && is_aligned(call.key_cache) && is_aligned(call.out) && !has_codes(call);
  if (!is_usual || !is_whole) return {};
  const auto sizes = std::ranges::find_if(kLatentSizes, [&](const LatentSizes& one) {
    return call.q.size(2) == one.key_dim && call.out.size(2) == one.value_dim;
  });
  if (sizes == kLatentSizes.end()) return {};
  return latent_kernels(call.q.dtype())[static_cast<size_t>(sizes - kLatentSizes.begin())];
}

/// Whether tiles of 64 rows are worth it. Only the shape decides, as in has_many_rows(). Tiles of
/// sixteen rows divide little work among more blocks, and the block that merges the parts of a tile
/// has less to add; tiles of 64 rows read a position for four times as many rows. By arithmetic
/// both take as long with 8 to 16 tiles of 64 rows in parts, on 132 multiprocessors.
bool wants_wide_tiles(const AttentionKernelArguments& a, int num_multiprocessors) {
  return has_many_rows(a) &&
         8 * a.num_tokens * a.group_size >= int64_t{kWideLatentRows} * num_multiprocessors;
}

/// `arguments.most_partial_rows`: rows of kPartialRowFloats. `kernels.wide` is nullptr if this GPU
/// does not run it.
bool launch_latents(device::Stream& stream,
                    const LatentKernel& kernels,
                    const CudaExecutorOptions& options,
                    const std::array<device::BufferUse, 9>& uses,
                    CudaAttentionArguments arguments) {
  const AttentionKernelArguments& a = arguments.call;
  // With one part for each request, no bit of a token depends on its batch or on its prompt's
  // division.
  const bool has_parts = options.invariance == BatchInvariance::not_required;
  arguments.most_partial_rows = has_parts ? arguments.most_partial_rows * kPartialRowFloats /
                                                latent_part_floats(static_cast<int>(a.value_dim))
                                          : 0;
  const bool is_wide = kernels.wide != nullptr && wants_wide_tiles(a, options.num_multiprocessors);
  const int64_t rows = is_wide ? kWideLatentRows : kNarrowLatentRows;
  arguments.division =
      is_wide ? AttentionDivision::by_context : AttentionDivision::by_context_in_small;
  int64_t tiles = most_tiles(a, rows);
  if (arguments.is_uniform != 0) tiles = a.num_reqs * ceil_div(a.query_len * a.group_size, rows);
  const int64_t blocks = tiles + kBlocksPerMultiprocessor * options.num_multiprocessors;
  return launch(stream,
                is_wide ? *kernels.wide : *kernels.narrow,
                static_cast<uint32_t>(blocks),
                arguments,
                uses);
}

/// Whether only the kernel that computes row by row serves the call: the others have no biases, see
/// no later positions, and keep keys and values of one size.
bool needs_rows(const AttentionCall& call) {
  return call.biases != nullptr || call.is_bidirectional || call.out.size(2) != call.q.size(2);
}

void require_supported(const AttentionCall& call) {
  if (call.out.size(2) > kMaxAttentionHeadDim) {
    throw InvalidArgument(
        fmt::format("attention: head_dim {} is more than the {} that the CUDA kernels support",
                    call.out.size(2),
                    kMaxAttentionHeadDim));
  }
  require_dense_rows(call.q, "attention");
  require_dense_rows(call.out, "attention");
}

AttentionKernelArguments attention_arguments(const AttentionCall& call) {
  const Tensor& q = call.q;
  const Tensor& keys = call.key_cache;
  return {.q = q.data(),
          .key_cache = keys.data(),
          .value_cache = call.value_cache.data(),
          .out = call.out.data(),
          .sinks = call.sinks == nullptr ? nullptr : call.sinks->data(),
          .biases = call.biases == nullptr ? nullptr : call.biases->data_as<float>(),
          .num_biases = call.biases == nullptr ? 0 : call.biases->size(1),
          .out_scale = nullptr,
          .query_start_loc = call.query_start_loc.data_as<int32_t>(),
          .seq_lens = call.seq_lens.data_as<int32_t>(),
          .block_table = call.block_table.data_as<int32_t>(),
          .q_token_stride = q.stride(0),
          .q_head_stride = q.stride(1),
          .out_token_stride = call.out.stride(0),
          .out_head_stride = call.out.stride(1),
          .block_table_stride = call.block_table.stride(0),
          .num_tokens = q.size(0),
          .num_reqs = call.seq_lens.size(0),
          .block_stride = keys.stride(0),
          .kv_head_stride = keys.stride(1),
          .kv_heads = keys.size(1),
          .group_size = q.size(1) / keys.size(1),
          .head_dim = q.size(2),
          .value_dim = call.out.size(2),
          .block_size = keys.size(2),
          .sliding_window = call.sliding_window,
          .chunk_size = call.chunk_size,
          .tokens_per_block = 0,
          .query_len = 1,
          .scale = call.scale,
          .soft_cap = call.soft_cap,
          .is_bidirectional = call.is_bidirectional ? 1 : 0,
          .out_type = AttentionOut::like_q,
          .cache = cache_rows(keys, q.dtype(), q.size(2), call.scales)};
}

// The first use is the buffer that the kernel writes.
std::array<device::BufferUse, 9> attention_uses(const AttentionCall& call) {
  return {writes(call.out),
          reads(call.q),
          reads(call.key_cache),
          reads(call.value_cache),
          reads(call.query_start_loc),
          reads(call.seq_lens),
          reads(call.block_table),
          reads(call.sinks == nullptr ? Tensor() : *call.sinks),
          reads(call.biases == nullptr ? Tensor() : *call.biases)};
}

uint32_t blocks_by_rows(const AttentionKernelArguments& a, const device::Kernel& kernel) {
  return static_cast<uint32_t>(
      ceil_div(a.num_tokens * a.kv_heads * a.group_size, kernel.cuda.threads_per_block / 32));
}

}  // namespace

bool CudaExecutor::launch_attention(const OpRun& run) {
  const AttentionCall call = attention_call_of(run);
  require_supported(call);
  if (call.q.size(0) == 0) return false;
  if (attention().kind == AttentionPath::Kind::planned && !needs_rows(call)) {
    return launch_planned_attention(call);
  }
  return launch_divided_attention(call);
}

bool CudaExecutor::launch_divided_attention(const AttentionCall& call) {
  CudaAttentionArguments arguments = {
      .call = attention_arguments(call),
      .partials = static_cast<float*>(partials_.data()),
      .arrived = static_cast<int32_t*>(arrived_.data()),
      .most_partial_rows =
          std::min(partial_rows_, partial_rows_ * kPartialRowFloats / (call.q.size(2) + 2)),
      .max_tiles = 0,
      .max_parts = 1,
      .served = ServedRequests::all,
      .block_bits = std::countr_zero(static_cast<uint64_t>(call.key_cache.size(2))),
      .division = options_.invariance == BatchInvariance::required ? AttentionDivision::fixed_parts
                                                                   : AttentionDivision::by_context,
      .is_uniform = 0};
  AttentionKernelArguments& a = arguments.call;
  if (LatentKernel latent = latent_kernel(call); latent.narrow != nullptr) {
    if (latent.wide->cuda.shared_bytes > block_shared_bytes_) latent.wide = nullptr;
    a.query_len = attention().query_len;
    arguments.is_uniform = attention().kind == AttentionPath::Kind::uniform ? 1 : 0;
    arguments.most_partial_rows = partial_rows_;
    return launch_latents(stream(), latent, options_, attention_uses(call), arguments);
  }
  const AttentionPathKernels paths = attention_kernels(call.q.dtype());
  if (needs_rows(call)) {
    const device::Kernel& by_rows = *paths.any_batch.by_rows;
    return launch(stream(), by_rows, blocks_by_rows(a, by_rows), arguments, attention_uses(call));
  }
  if (arguments.division == AttentionDivision::fixed_parts)
    return launch_fixed_attention(call, paths, arguments);
  a.query_len = attention().query_len;
  const bool is_uniform = attention().kind == AttentionPath::Kind::uniform &&
                          a.query_len * a.group_size <= kAttentionTileRows;
  const AttentionKernels& kernels = is_uniform ? paths.uniform : paths.any_batch;
  const device::Kernel* kernel = fragment_kernel(kernels, call);
  arguments.is_uniform = is_uniform ? 1 : 0;
  const device::Kernel* prefill = is_uniform ? nullptr : prefill_kernel(paths.prefill, a, call);
  if (prefill != nullptr) return launch_prefill_attention(call, *prefill, *kernel, arguments);
  if (kernel != nullptr) return launch_few_rows(call, *kernel, arguments);
  kernel = kernels.by_rows;
  return launch(stream(), *kernel, blocks_by_rows(a, *kernel), arguments, attention_uses(call));
}

bool CudaExecutor::launch_few_rows(const AttentionCall& call,
                                   const device::Kernel& own,
                                   CudaAttentionArguments arguments) {
  const AttentionKernelArguments& a = arguments.call;
  // Its tiles of sixteen rows would read the keys and values of prompts too often.
  const bool is_prompts = has_many_rows(a) && arguments.served == ServedRequests::all;
  const FlashInferHeads* flashinfer =
      is_prompts ? nullptr : flashinfer_heads(options_.flashinfer, call);
  if (flashinfer != nullptr) arguments.division = AttentionDivision::by_context_in_small;
  const int64_t tile_rows = flashinfer != nullptr ? kAttentionWarpRows : kAttentionTileRows;
  int64_t tiles = most_tiles(a, tile_rows);
  if (arguments.is_uniform != 0)
    tiles = a.num_reqs * ceil_div(a.query_len * a.group_size, tile_rows);
  auto uses = attention_uses(call);
  if (arguments.served == ServedRequests::of_few_rows) {
    // The kernel writes the rows of decoding requests and keeps the other rows.
    uses[0].access = device::BufferUse::Access::read_write;
    tiles = std::min(a.num_reqs, a.num_tokens);
  }
  return launch(stream(),
                flashinfer != nullptr ? *flashinfer->decode : own,
                decode_blocks(a, tiles),
                arguments,
                uses);
}

bool CudaExecutor::launch_fixed_attention(const AttentionCall& call,
                                          const AttentionPathKernels& paths,
                                          const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  // A sink belongs to the first part of a context, and which one this is depends on the batch.
  const device::Kernel* kernel =
      call.sinks == nullptr ? fragment_kernel(paths.fixed, call) : nullptr;
  if (kernel != nullptr) {
    const uint32_t blocks = decode_blocks(a, most_tiles(a, kAttentionWarpRows));
    return launch(stream(), *kernel, blocks, arguments, attention_uses(call));
  }
  // This kernel computes each row alone, position after position.
  const device::Kernel& by_rows = *paths.any_batch.by_rows;
  return launch(stream(), by_rows, blocks_by_rows(a, by_rows), arguments, attention_uses(call));
}

uint32_t CudaExecutor::decode_blocks(const AttentionKernelArguments& a, int64_t tiles) const {
  // A block for each tile, and blocks for the parts of long contexts. If there are still more
  // parts, blocks compute several of them.
  const int64_t blocks = std::max<int64_t>(tiles, 1) * a.kv_heads +
                         kBlocksPerMultiprocessor * options_.num_multiprocessors;
  return static_cast<uint32_t>(blocks);
}

bool CudaExecutor::launch_prefill_attention(const AttentionCall& call,
                                            const device::Kernel& prefill,
                                            const device::Kernel& decode,
                                            CudaAttentionArguments arguments) {
  const AttentionKernelArguments& a = arguments.call;
  const auto uses = attention_uses(call);
  // A tile of the kernel for prompts has 128 rows, and most of them would be empty for a decoding
  // request. If there is only one request, it is a prompt.
  const bool has_decoding = a.num_reqs > 1;
  arguments.served = has_decoding ? ServedRequests::of_many_rows : ServedRequests::all;
  const device::Kernel* kernel = &prefill;
  int64_t blocks = 0;
  if (const FlashInferPromptKernel* flashinfer = flashinfer_prompts(options_, a, call)) {
    kernel = flashinfer->kernel;
    arguments.max_tiles = most_tiles(a, flashinfer->tile_tokens * a.group_size);
    blocks = arguments.max_tiles * a.kv_heads * a.group_size;
  } else {
    arguments.max_tiles = most_tiles(a, kPrefillTileRows);
    arguments.max_parts = max_parts(arguments.max_tiles * a.kv_heads,
                                    kPrefillBlocksPerMultiprocessor * options_.num_multiprocessors);
    blocks = arguments.max_tiles * a.kv_heads * arguments.max_parts;
  }
  const bool is_launched =
      launch(stream(), *kernel, static_cast<uint32_t>(blocks), arguments, uses);
  if (!has_decoding) return is_launched;

  arguments.served = ServedRequests::of_few_rows;
  return launch_few_rows(call, decode, arguments);
}

bool CudaExecutor::launch_planned_attention(const AttentionCall& call) {
  const Tensor& q = call.q;
  const Tensor& plan = attention().plan;
  const Tensor& partials = attention().partials;
  const auto blocks =
      static_cast<uint32_t>(kBlocksPerMultiprocessor * options_.num_multiprocessors);
  const PlannedAttentionArguments arguments = {.call = attention_arguments(call),
                                               .plan = plan.data_as<int32_t>(),
                                               .partials = partials.data_as<float>(),
                                               .grid_size = blocks};
  const AttentionPathKernels paths = attention_kernels(q.dtype());
  const FlashInferDecode* flashinfer =
      attention().query_len == 1 ? planned_flashinfer(options_.flashinfer.planned, call) : nullptr;
  const device::Kernel* kernel =
      flashinfer != nullptr ? flashinfer->decode : fragment_kernel(paths.planned, call);
  const device::Kernel* merge = flashinfer != nullptr ? flashinfer->merge : paths.merge;
  constexpr size_t kPlan = 9;
  constexpr size_t kPartials = 10;
  std::array<device::BufferUse, 11> uses;
  std::ranges::copy(attention_uses(call), uses.begin());
  uses[kPlan] = reads(plan);
  uses[kPartials] = writes(partials);
  (void)launch(
      stream(), kernel != nullptr ? *kernel : *paths.planned.by_rows, blocks, arguments, uses);
  // The second launch writes the rows of requests with parts and keeps the other rows.
  uses[0].access = device::BufferUse::Access::read_write;
  uses[kPartials] = reads(partials);
  return launch(stream(), *merge, blocks, arguments, uses);
}

}  // namespace reprise::kernels::cuda
