#include "reprise/kernels/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reprise/base/error.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/kernels/row_group/row_group.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::kernels::cuda {
namespace {

// Blocks of an attention launch that keep every multiprocessor busy.
constexpr int64_t kBlocksPerMultiprocessor = 4;
constexpr int64_t kPrefillBlocksPerMultiprocessor = 2;
constexpr int64_t kLargestFragmentHead = 128;
static_assert(GemmLibrary::kFewestRows == kMostTileRows + 1,
              "beyond one tile our own kernels read the weight again");

[[noreturn]] void refuse(OpCode code) {
  throw InvalidArgument(
      fmt::format("{}: has no CUDA kernel yet; use --device cpu, or a model and passes without it "
                  "(eight-bit types need the CPU)",
                  op_name(code)));
}

/// Splits of the positions of a launch with so many tiles and heads.
int64_t num_splits(int64_t tiles, int64_t wanted_blocks) {
  return std::clamp<int64_t>(ceil_div(wanted_blocks, tiles), 1, kMostSplits);
}

/// Rows of partial results that no launch exceeds: with more tiles than wanted blocks there is one
/// split, and nothing is left for others.
int64_t most_partial_rows(int num_multiprocessors) {
  const auto rows = [&](int64_t blocks, int64_t tile_rows) {
    return (2 * blocks * num_multiprocessors + kMostSplits) * tile_rows;
  };
  return std::max(rows(kBlocksPerMultiprocessor, kAttentionTileRows),
                  rows(kPrefillBlocksPerMultiprocessor, kPrefillTileRows));
}

/// Tiles that no batch of the shape exceeds.
int64_t most_tiles(const AttentionKernelArguments& a, int64_t tile_rows) {
  return std::min(a.num_reqs, a.num_tokens) + a.num_tokens * a.group_size / tile_rows;
}

/// Narrow rows are a warp's each, wide ones a block's: as generated code divides its threads.
int64_t rows_per_block_on_gpu(int64_t elements_per_row) {
  constexpr int64_t kWidestWarpRow = 1024;
  return elements_per_row <= kWidestWarpRow ? kRowGroupThreads / 32 : 1;
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % 16 == 0 && tensor.stride(0) % 8 == 0 &&
         tensor.stride(1) % 8 == 0;
}

const device::Kernel* fragment_kernel(const AttentionKernels& kernels, const Tensor& q) {
  if (!is_aligned(q)) return nullptr;
  if (q.size(2) == 64) return kernels.head_64;
  return q.size(2) == kLargestFragmentHead ? kernels.head_128 : nullptr;
}

/// The kernel for requests of many tokens, where a batch of the shape has some in the mean: decided
/// by the shape, as graphs are, and right for any batch. nullptr: not for this one.
const device::Kernel* prefill_kernel(const AttentionKernels& kernels,
                                     const AttentionKernelArguments& a,
                                     std::span<const Tensor> in) {
  const bool has_many_rows = a.num_tokens * a.group_size > kAttentionWarpRows * a.num_reqs;
  const bool is_served =
      is_aligned(in[6]) && a.scale > 0 && std::has_single_bit(static_cast<uint64_t>(a.block_size));
  return has_many_rows && is_served ? fragment_kernel(kernels, in[0]) : nullptr;
}

AttentionKernelArguments attention_arguments(const OpCall& call, std::span<const Tensor> in) {
  const Tensor& q = in[0];
  const Tensor& keys = in[1];
  const Tensor& out = in[6];
  return {.q = q.data(),
          .key_cache = keys.data(),
          .value_cache = in[2].data(),
          .out = out.data(),
          .out_scale = nullptr,
          .query_start_loc = in[3].data_as<int32_t>(),
          .seq_lens = in[4].data_as<int32_t>(),
          .block_table = in[5].data_as<int32_t>(),
          .q_token_stride = q.stride(0),
          .q_head_stride = q.stride(1),
          .out_token_stride = out.stride(0),
          .out_head_stride = out.stride(1),
          .block_table_stride = in[5].stride(0),
          .num_tokens = q.size(0),
          .num_reqs = in[4].size(0),
          .kv_heads = keys.size(1),
          .group_size = q.size(1) / keys.size(1),
          .head_dim = q.size(2),
          .block_size = keys.size(2),
          .sliding_window = call.attributes.sliding_window,
          .tokens_per_block = 0,
          .query_len = 1,
          .scale = call.attributes.scale,
          .out_type = AttentionOut::like_q};
}

// The first is what is written.
std::array<device::BufferUse, 7> attention_uses(std::span<const Tensor> in) {
  return {writes(in[6]),
          reads(in[0]),
          reads(in[1]),
          reads(in[2]),
          reads(in[3]),
          reads(in[4]),
          reads(in[5])};
}

}  // namespace

CudaExecutor::CudaExecutor(device::Stream& stream,
                           device::MemoryPool& pool,
                           const CudaExecutorOptions& options)
    : EagerExecutor(stream, pool, row_kernels()), options_(options) {
  device::Device& device = stream.device();
  for (const device::Kernel* kernel : all_kernels()) device.load(*kernel);
  for (const FlashInferKernels& kernels : options.flashinfer) {
    device.load(*kernels.decode);
    device.load(*kernels.merge);
  }
  const auto rows = static_cast<size_t>(most_partial_rows(options.num_multiprocessors));
  partials_ = device.allocate(rows * (kLargestFragmentHead + 2) * sizeof(float));
  arrived_ = device.allocate(rows / kAttentionTileRows * sizeof(int32_t));
  if (options.cublas_lt != nullptr) {
    gemm_ = std::make_unique<GemmLibrary>(*options.cublas_lt,
                                          dynamic_cast<device::cuda::CudaStream&>(stream));
  }
}

bool CudaExecutor::multiply(const Tensor& x,
                            const Tensor& weight,
                            const Tensor& bias,
                            const Tensor& out) {
  return gemm_ != nullptr && gemm_->multiply(x, weight, bias, out);
}

Tensor CudaExecutor::product_of(std::span<const Tensor> in) {
  if (gemm_ == nullptr || in[0].size(0) < GemmLibrary::kFewestRows) return {};
  Tensor product = allocate({in[0].dtype(), {in[0].size(0), in[1].size(0)}});
  if (!multiply(in[0], in[1], in[2], product)) return {};
  return product;
}

bool CudaExecutor::run(const OpCall& call, std::span<const Tensor> in, std::span<Tensor> out) {
  const std::optional<OpCode> behind = op_after_norm(call.code);
  const Tensor none;
  if (!behind) return run_after({.weight = none, .epsilon = 0}, call, in, out);
  if (!can_norm_first(in[0], in[1], in.back())) return EagerExecutor::run(call, in, out);
  return run_after({.weight = in.back(), .epsilon = call.attributes.epsilon},
                   {*behind, call.attributes, call.where},
                   in.first(in.size() - 1),
                   out);
}

bool CudaExecutor::run_after(const NormCall& norm,
                             const OpCall& call,
                             std::span<const Tensor> in,
                             std::span<Tensor> out) {
  const Tensor none;
  const auto linear = [&](const LinearKernels& kernels, const Tensor& residual) {
    return launch_linear(stream(),
                         kernels,
                         options_.num_multiprocessors,
                         {.x = in[0],
                          .weight = in[1],
                          .bias = in[2],
                          .residual = residual,
                          .num_rows = none,
                          .out = out[0],
                          .norm = norm});
  };
  switch (call.code) {
    case OpCode::linear:
      return multiply(in[0], in[1], in[2], out[0]) || linear(linear_kernels(in[0].dtype()), none);
    case OpCode::linear_add:
      if (const Tensor product = product_of(in); product.defined()) {
        return launch_add(stream(), row_kernels(), in[3], product, out[0]);
      }
      return linear(linear_kernels(in[0].dtype()), in[3]);
    case OpCode::linear_silu_and_mul:
      if (const Tensor product = product_of(in); product.defined()) {
        return launch_silu_and_mul(stream(), row_kernels(), product, out[0]);
      }
      return linear(linear_silu_and_mul_kernels(in[0].dtype()), none);
    case OpCode::lm_head:
      // All rows, wanted or not: how many are is known on the device only.
      return multiply(in[0], in[1], none, out[0]) || launch_linear(stream(),
                                                                   lm_head_kernels(in[0].dtype()),
                                                                   options_.num_multiprocessors,
                                                                   {.x = in[0],
                                                                    .weight = in[1],
                                                                    .bias = none,
                                                                    .residual = none,
                                                                    .num_rows = in[2],
                                                                    .out = out[0],
                                                                    .norm = norm});
    case OpCode::linear_rope_kv_write:
      return launch_linear_rope_kv_write(norm, call, in, out[0]);
    case OpCode::attention:
      return launch_attention(call, in);
    case OpCode::row_group:
      return launch_row_group(stream(), *call.attributes.row_group, in, out, rows_per_block_on_gpu);
    case OpCode::custom:
      if (!call.attributes.custom->launch_cuda) {
        throw InvalidArgument(fmt::format("custom op {} has no kernel for {}: register one",
                                          call.attributes.custom->name,
                                          stream().device().name()));
      }
      call.attributes.custom->launch_cuda(stream(), in, out);
      return true;
    case OpCode::quantize_per_token:
    case OpCode::quantize_static:
    case OpCode::rms_norm_quant:
    case OpCode::fused_add_rms_norm_quant:
    case OpCode::silu_and_mul_quant:
    case OpCode::scaled_linear:
    case OpCode::attention_quant:
      refuse(call.code);
    default:
      return EagerExecutor::run(call, in, out);
  }
}

bool CudaExecutor::launch_attention(const OpCall& call, std::span<const Tensor> in) {
  const Tensor& q = in[0];
  const Tensor& out = in[6];
  if (q.size(2) > kMaxAttentionHeadDim) {
    throw InvalidArgument(
        fmt::format("attention: head_dim {} is more than the {} that the CUDA kernels support",
                    q.size(2),
                    kMaxAttentionHeadDim));
  }
  require_dense_rows(q, "attention");
  require_dense_rows(out, "attention");
  if (q.size(0) == 0) return false;
  return attention().kind == AttentionRoutine::Kind::planned ? launch_planned_attention(call, in)
                                                             : launch_split_attention(call, in);
}

bool CudaExecutor::launch_split_attention(const OpCall& call, std::span<const Tensor> in) {
  CudaAttentionArguments arguments = {
      .call = attention_arguments(call, in),
      .partials = static_cast<float*>(partials_.data()),
      .arrived = static_cast<int32_t*>(arrived_.data()),
      .max_tiles = 0,
      .num_splits = 1,
      .block_bits = std::countr_zero(static_cast<uint64_t>(in[1].size(2)))};
  AttentionKernelArguments& a = arguments.call;
  a.query_len = attention().query_len;
  const AttentionRoutineKernels routines = attention_kernels(in[0].dtype());
  // A uniform tile is a whole request.
  const bool is_uniform = attention().kind == AttentionRoutine::Kind::uniform &&
                          a.query_len * a.group_size <= kAttentionTileRows;
  const AttentionKernels& kernels = is_uniform ? routines.uniform : routines.any_batch;
  const device::Kernel* prefill = is_uniform ? nullptr : prefill_kernel(routines.prefill, a, in);
  const device::Kernel* kernel = prefill != nullptr ? prefill : fragment_kernel(kernels, in[0]);
  int64_t blocks = 0;
  if (kernel != nullptr) {
    arguments.max_tiles =
        is_uniform ? std::max<int64_t>(a.num_reqs, 1)
                   : most_tiles(a, prefill != nullptr ? kPrefillTileRows : kAttentionTileRows);
    arguments.num_splits = num_splits(
        arguments.max_tiles * a.kv_heads,
        options_.num_multiprocessors *
            (prefill != nullptr ? kPrefillBlocksPerMultiprocessor : kBlocksPerMultiprocessor));
    blocks = arguments.max_tiles * a.kv_heads * arguments.num_splits;
  } else {
    kernel = kernels.by_rows;
    blocks =
        ceil_div(a.num_tokens * a.kv_heads * a.group_size, kernel->cuda.threads_per_block / 32);
  }
  return launch(stream(), *kernel, static_cast<uint32_t>(blocks), arguments, attention_uses(in));
}

bool CudaExecutor::launch_planned_attention(const OpCall& call, std::span<const Tensor> in) {
  const Tensor& plan = attention().plan;
  const Tensor& partials = attention().partials;
  const auto blocks =
      static_cast<uint32_t>(kBlocksPerMultiprocessor * options_.num_multiprocessors);
  const PlannedAttentionArguments arguments = {.call = attention_arguments(call, in),
                                               .plan = plan.data_as<int32_t>(),
                                               .partials = partials.data_as<float>(),
                                               .grid_size = blocks};
  const AttentionRoutineKernels routines = attention_kernels(in[0].dtype());
  const FlashInferKernels* flashinfer = flashinfer_for(call, in);
  const device::Kernel* kernel =
      flashinfer != nullptr ? flashinfer->decode : fragment_kernel(routines.planned, in[0]);
  const device::Kernel* merge = flashinfer != nullptr ? flashinfer->merge : routines.merge;
  std::array<device::BufferUse, 9> uses;
  std::ranges::copy(attention_uses(in), uses.begin());
  uses[7] = reads(plan);
  uses[8] = writes(partials);
  (void)launch(
      stream(), kernel != nullptr ? *kernel : *routines.planned.by_rows, blocks, arguments, uses);
  // Writes the rows of requests with parts, and leaves the others.
  uses[0].access = device::BufferUse::Access::read_write;
  uses[8] = reads(partials);
  return launch(stream(), *merge, blocks, arguments, uses);
}

const FlashInferKernels* CudaExecutor::flashinfer_for(const OpCall& call,
                                                      std::span<const Tensor> in) const {
  const Tensor& q = in[0];
  const Tensor& out = in[6];
  // Its results lie head by head, and parts of an odd number of heads are not aligned to 16 bytes.
  const bool fits = attention().query_len == 1 && call.attributes.sliding_window == 0 &&
                    is_aligned(q) && is_aligned(out) && out.stride(1) == q.size(2) &&
                    q.size(1) % 2 == 0;
  if (!fits) return nullptr;
  const auto found = std::ranges::find_if(options_.flashinfer, [&](const FlashInferKernels& one) {
    return one.dtype == q.dtype() && one.head_dim == q.size(2) &&
           one.group_size == q.size(1) / in[1].size(1);
  });
  return found == options_.flashinfer.end() ? nullptr : &*found;
}

bool CudaExecutor::launch_linear_rope_kv_write(const NormCall& norm,
                                               const OpCall& call,
                                               std::span<const Tensor> in,
                                               const Tensor& q_out) {
  const RopeAndCacheCall rope_and_cache = {.positions = in[3],
                                           .cos_sin = in[4],
                                           .key_cache = in[5],
                                           .value_cache = in[6],
                                           .slot_mapping = in[7],
                                           .q_norm = in[8],
                                           .k_norm = in[9],
                                           .epsilon = call.attributes.epsilon,
                                           .q_out = q_out};
  if (cuda::launch_linear_rope_kv_write(
          stream(), options_.num_multiprocessors, in[0], in[1], in[2], rope_and_cache, norm)) {
    return true;
  }
  // Two launches: the product goes through memory of the pool.
  const Tensor none;
  const int64_t tokens = in[0].size(0);
  const int64_t columns = in[1].size(0);
  const int64_t heads = q_out.size(1);
  const int64_t kv_heads = in[5].size(1);
  const int64_t head_dim = q_out.size(2);
  const Tensor product = allocate({in[0].dtype(), {tokens, columns}});
  if (!multiply(in[0], in[1], in[2], product)) {
    launch_linear(stream(),
                  linear_kernels(in[0].dtype()),
                  options_.num_multiprocessors,
                  {.x = in[0],
                   .weight = in[1],
                   .bias = in[2],
                   .residual = none,
                   .num_rows = none,
                   .out = product,
                   .norm = norm});
  }
  const auto part = [&](int64_t count, int64_t first_head) {
    return product.with_layout(
        {tokens, count, head_dim}, {columns, head_dim, 1}, first_head * head_dim);
  };
  return launch_rope_kv_write(stream(),
                              row_kernels(),
                              part(heads, 0),
                              part(kv_heads, heads),
                              part(kv_heads, heads + kv_heads),
                              rope_and_cache);
}

}  // namespace reprise::kernels::cuda
