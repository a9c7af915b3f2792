#include "reprise/kernels/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reprise/base/error.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/kernel_table.inl"
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
              "with more than one tile the project's own kernels read the weight again");

/// The number of parts of the positions, for a launch with so many tiles and heads.
int64_t max_parts(int64_t tiles, int64_t wanted_blocks) {
  return std::clamp<int64_t>(ceil_div(wanted_blocks, tiles), 1, kMostParts);
}

/// The largest number of rows of partial results in a launch. With more tiles than wanted blocks
/// there is only one part, which leaves no partial results.
int64_t most_partial_rows(int num_multiprocessors) {
  const auto rows = [&](int64_t blocks, int64_t tile_rows) {
    return (2 * blocks * num_multiprocessors + kMostParts) * tile_rows;
  };
  return std::max(rows(kBlocksPerMultiprocessor, kAttentionTileRows),
                  rows(kPrefillBlocksPerMultiprocessor, kPrefillTileRows));
}

/// The largest number of tiles of a batch with this shape.
int64_t most_tiles(const AttentionKernelArguments& a, int64_t tile_rows) {
  return std::min(a.num_reqs, a.num_tokens) + a.num_tokens * a.group_size / tile_rows;
}

/// Generated code computes a narrow row by a warp and a wide row by a block.
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

/// The kernel for requests of many tokens, if a batch of this shape has many tokens per request on
/// average. Only the shape decides, because a graph serves all batches of a shape; the kernel is
/// correct for any batch. nullptr: another kernel serves the shape.
const device::Kernel* prefill_kernel(const AttentionKernels& kernels,
                                     const AttentionKernelArguments& a,
                                     const Tensor& q,
                                     const Tensor& out) {
  const bool has_many_rows = a.num_tokens * a.group_size > kAttentionWarpRows * a.num_reqs;
  const bool is_served =
      is_aligned(out) && a.scale > 0 && std::has_single_bit(static_cast<uint64_t>(a.block_size));
  return has_many_rows && is_served ? fragment_kernel(kernels, q) : nullptr;
}

using AttentionOperands = Operands<OpCode::attention>;

AttentionKernelArguments attention_arguments(const OpRun& run) {
  const AttentionOperands in(run.in);
  const Tensor& q = in["q"];
  const Tensor& keys = in["key_cache"];
  const Tensor& out = in["out"];
  if (keys.dtype() != q.dtype()) {
    throw InvalidArgument(
        fmt::format("attention: no CUDA kernel reads a cache of {}", dtype_name(keys.dtype())));
  }
  return {.q = q.data(),
          .key_cache = keys.data(),
          .value_cache = in["value_cache"].data(),
          .out = out.data(),
          .sinks = nullptr,
          .out_scale = nullptr,
          .query_start_loc = in["query_start_loc"].data_as<int32_t>(),
          .seq_lens = in["seq_lens"].data_as<int32_t>(),
          .block_table = in["block_table"].data_as<int32_t>(),
          .q_token_stride = q.stride(0),
          .q_head_stride = q.stride(1),
          .out_token_stride = out.stride(0),
          .out_head_stride = out.stride(1),
          .block_table_stride = in["block_table"].stride(0),
          .num_tokens = q.size(0),
          .num_reqs = in["seq_lens"].size(0),
          .block_stride = keys.stride(0),
          .kv_head_stride = keys.stride(1),
          .kv_heads = keys.size(1),
          .group_size = q.size(1) / keys.size(1),
          .head_dim = q.size(2),
          .value_dim = q.size(2),
          .block_size = keys.size(2),
          .sliding_window = run.call.attributes.sliding_window,
          .tokens_per_block = 0,
          .query_len = 1,
          .scale = run.call.attributes.scale,
          .soft_cap = 0,
          .is_bidirectional = 0,
          .out_type = AttentionOut::like_q};
}

// The first use is the buffer that the kernel writes.
std::array<device::BufferUse, 7> attention_uses(const OpRun& run) {
  const AttentionOperands in(run.in);
  return {writes(in["out"]),
          reads(in["q"]),
          reads(in["key_cache"]),
          reads(in["value_cache"]),
          reads(in["query_start_loc"]),
          reads(in["seq_lens"]),
          reads(in["block_table"])};
}

bool launch_group(const OpRun& run) {
  return launch_row_group(
      run.stream, *run.call.attributes.row_group, run.in, run.out, rows_per_block_on_gpu);
}

bool launch_custom(const OpRun& run) {
  const CustomOp& op = *run.call.attributes.custom;
  if (!op.launch_cuda) {
    throw InvalidArgument(fmt::format(
        "custom op {} has no kernel for {}: register one", op.name, run.stream.device().name()));
  }
  op.launch_cuda(run.stream, run.in, run.out);
  return true;
}

// Ops that need no kernel, or whose kernels take the arguments and the grids of the CPU's.
constexpr std::array kLaunchedAsOnCpu = {
#define REPRISE_OP_OF_KERNEL(unused, op, ...) OpCode::op,
    REPRISE_ROW_KERNELS(REPRISE_OP_OF_KERNEL, )
#undef REPRISE_OP_OF_KERNEL
        OpCode::empty,
    OpCode::embedding,
    OpCode::gather_rows,
    OpCode::kv_write,
    // Launching these is refused: an engine has one rank.
    OpCode::all_reduce,
    OpCode::reduce_scatter,
    OpCode::all_gather,
    OpCode::fused_all_reduce_add_rms_norm,
    OpCode::linear_reduce_scatter,
    OpCode::all_gather_linear};

}  // namespace

CudaExecutor::CudaExecutor(device::Stream& stream,
                           device::MemoryPool& pool,
                           const CudaExecutorOptions& options)
    : DeviceExecutor(stream, pool, row_kernels(), launches()), options_(options) {
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

template <CudaExecutor::LaunchProduct kLaunch>
bool CudaExecutor::launch_product(const OpRun& run) {
  const Tensor none;
  return (static_cast<CudaExecutor&>(run.executor).*kLaunch)({.weight = none, .epsilon = 0}, run);
}

template <CudaExecutor::LaunchProduct kLaunch>
bool CudaExecutor::launch_product_of_norm(const OpRun& run) {
  const Tensor& weight = run.in.back();
  if (!can_norm_first(run.in[0], run.in[1], weight)) return launch_norm_apart(run);
  OpRun product = run;
  product.in = run.in.first(run.in.size() - 1);
  return (static_cast<CudaExecutor&>(run.executor).*kLaunch)(
      {.weight = weight, .epsilon = run.call.attributes.epsilon}, product);
}

const LaunchTable& CudaExecutor::launches() {
  static const LaunchTable table = [] {
    LaunchTable launches = {};
    const auto set = [&](OpCode op, LaunchOp launch) {
      launches[static_cast<size_t>(op)] = launch;
    };
    for (OpCode op : kLaunchedAsOnCpu) set(op, cpu_launches()[static_cast<size_t>(op)]);
    set(OpCode::linear, launch_product<&CudaExecutor::linear>);
    set(OpCode::linear_add, launch_product<&CudaExecutor::linear_add>);
    set(OpCode::linear_silu_and_mul, launch_product<&CudaExecutor::linear_silu_and_mul>);
    set(OpCode::lm_head, launch_product<&CudaExecutor::lm_head>);
    set(OpCode::linear_rope_kv_write, launch_product<&CudaExecutor::linear_rope_kv_write>);
    set(OpCode::rms_norm_linear_silu_and_mul,
        launch_product_of_norm<&CudaExecutor::linear_silu_and_mul>);
    set(OpCode::rms_norm_linear_rope_kv_write,
        launch_product_of_norm<&CudaExecutor::linear_rope_kv_write>);
    set(OpCode::rms_norm_lm_head, launch_product_of_norm<&CudaExecutor::lm_head>);
    set(OpCode::attention, [](const OpRun& run) {
      return static_cast<CudaExecutor&>(run.executor).launch_attention(run);
    });
    set(OpCode::row_group, launch_group);
    set(OpCode::custom, launch_custom);
    return launches;
  }();
  return table;
}

bool CudaExecutor::launch_own(const LinearKernels& kernels,
                              const NormCall& norm,
                              std::span<const Tensor> in,
                              const Tensor& residual,
                              const Tensor& out) {
  const Tensor none;
  return cuda::launch_linear(stream(),
                             kernels,
                             options_.num_multiprocessors,
                             {.x = in[0],
                              .weight = in[1],
                              .bias = in[2],
                              .residual = residual,
                              .num_rows = none,
                              .out = out,
                              .norm = norm});
}

bool CudaExecutor::linear(const NormCall& norm, const OpRun& run) {
  const auto in = run.operands<OpCode::linear>();
  return multiply(in["x"], in["weight"], in["bias"], run.out[0]) ||
         launch_own(linear_kernels(in["x"].dtype()), norm, run.in, {}, run.out[0]);
}

bool CudaExecutor::linear_add(const NormCall& norm, const OpRun& run) {
  const auto in = run.operands<OpCode::linear_add>();
  if (const Tensor product = product_of(run.in); product.defined()) {
    return launch_add(stream(), kernels(), in["residual"], product, run.out[0]);
  }
  return launch_own(linear_kernels(in["x"].dtype()), norm, run.in, in["residual"], run.out[0]);
}

bool CudaExecutor::linear_silu_and_mul(const NormCall& norm, const OpRun& run) {
  if (const Tensor product = product_of(run.in); product.defined()) {
    return launch_silu_and_mul(stream(), kernels(), product, run.out[0]);
  }
  const LinearKernels kernels = linear_silu_and_mul_kernels(run.in[0].dtype());
  return launch_own(kernels, norm, run.in, {}, run.out[0]);
}

bool CudaExecutor::lm_head(const NormCall& norm, const OpRun& run) {
  const auto in = run.operands<OpCode::lm_head>();
  const Tensor none;
  // The library computes all rows, because only the device knows the number of wanted rows.
  return multiply(in["x"], in["weight"], none, run.out[0]) ||
         cuda::launch_linear(stream(),
                             lm_head_kernels(in["x"].dtype()),
                             options_.num_multiprocessors,
                             {.x = in["x"],
                              .weight = in["weight"],
                              .bias = none,
                              .residual = none,
                              .num_rows = in["num_rows"],
                              .out = run.out[0],
                              .norm = norm});
}

bool CudaExecutor::linear_rope_kv_write(const NormCall& norm, const OpRun& run) {
  const auto in = run.operands<OpCode::linear_rope_kv_write>();
  const Tensor& x = in["x"];
  const Tensor& weight = in["weight"];
  const RopeAndCacheCall call = rope_and_cache_call<OpCode::linear_rope_kv_write>(run);
  if (cuda::launch_linear_rope_kv_write(
          stream(), options_.num_multiprocessors, x, weight, in["bias"], call, norm)) {
    return true;
  }
  // Uses two launches: the matrix product is stored in memory of the pool.
  const int64_t tokens = x.size(0);
  const int64_t columns = weight.size(0);
  const int64_t heads = call.q_out.size(1);
  const int64_t kv_heads = call.key_cache.size(1);
  const int64_t head_dim = call.q_out.size(2);
  const Tensor product = allocate({x.dtype(), {tokens, columns}});
  if (!multiply(x, weight, in["bias"], product)) {
    launch_own(linear_kernels(x.dtype()), norm, run.in, {}, product);
  }
  const auto part = [&](int64_t count, int64_t first_head) {
    return product.with_layout(
        {tokens, count, head_dim}, {columns, head_dim, 1}, first_head * head_dim);
  };
  return launch_rope_kv_write(stream(),
                              kernels(),
                              part(heads, 0),
                              part(kv_heads, heads),
                              part(kv_heads, heads + kv_heads),
                              call);
}

bool CudaExecutor::launch_attention(const OpRun& run) {
  const AttentionOperands in(run.in);
  const Tensor& q = in["q"];
  const Tensor& out = in["out"];
  if (q.size(2) > kMaxAttentionHeadDim) {
    throw InvalidArgument(
        fmt::format("attention: head_dim {} is more than the {} that the CUDA kernels support",
                    q.size(2),
                    kMaxAttentionHeadDim));
  }
  if (run.call.attributes.soft_cap != 0) {
    throw InvalidArgument(
        "attention: the CUDA kernels have no soft cap of scores; use --device cpu for this model");
  }
  require_dense_rows(q, "attention");
  require_dense_rows(out, "attention");
  if (q.size(0) == 0) return false;
  return attention().kind == AttentionPath::Kind::planned ? launch_planned_attention(run)
                                                          : launch_divided_attention(run);
}

bool CudaExecutor::launch_divided_attention(const OpRun& run) {
  const AttentionOperands in(run.in);
  const Tensor& q = in["q"];
  CudaAttentionArguments arguments = {
      .call = attention_arguments(run),
      .partials = static_cast<float*>(partials_.data()),
      .arrived = static_cast<int32_t*>(arrived_.data()),
      .max_tiles = 0,
      .max_parts = 1,
      .block_bits = std::countr_zero(static_cast<uint64_t>(in["key_cache"].size(2)))};
  AttentionKernelArguments& a = arguments.call;
  a.query_len = attention().query_len;
  const AttentionPathKernels paths = attention_kernels(q.dtype());
  // In a uniform batch a tile is a whole request.
  const bool is_uniform = attention().kind == AttentionPath::Kind::uniform &&
                          a.query_len * a.group_size <= kAttentionTileRows;
  const AttentionKernels& kernels = is_uniform ? paths.uniform : paths.any_batch;
  const device::Kernel* prefill =
      is_uniform ? nullptr : prefill_kernel(paths.prefill, a, q, in["out"]);
  const device::Kernel* kernel = prefill != nullptr ? prefill : fragment_kernel(kernels, q);
  int64_t blocks = 0;
  if (kernel != nullptr) {
    arguments.max_tiles =
        is_uniform ? std::max<int64_t>(a.num_reqs, 1)
                   : most_tiles(a, prefill != nullptr ? kPrefillTileRows : kAttentionTileRows);
    arguments.max_parts = max_parts(
        arguments.max_tiles * a.kv_heads,
        options_.num_multiprocessors *
            (prefill != nullptr ? kPrefillBlocksPerMultiprocessor : kBlocksPerMultiprocessor));
    blocks = arguments.max_tiles * a.kv_heads * arguments.max_parts;
  } else {
    kernel = kernels.by_rows;
    blocks =
        ceil_div(a.num_tokens * a.kv_heads * a.group_size, kernel->cuda.threads_per_block / 32);
  }
  return launch(stream(), *kernel, static_cast<uint32_t>(blocks), arguments, attention_uses(run));
}

bool CudaExecutor::launch_planned_attention(const OpRun& run) {
  const Tensor& q = AttentionOperands(run.in)["q"];
  const Tensor& plan = attention().plan;
  const Tensor& partials = attention().partials;
  const auto blocks =
      static_cast<uint32_t>(kBlocksPerMultiprocessor * options_.num_multiprocessors);
  const PlannedAttentionArguments arguments = {.call = attention_arguments(run),
                                               .plan = plan.data_as<int32_t>(),
                                               .partials = partials.data_as<float>(),
                                               .grid_size = blocks};
  const AttentionPathKernels paths = attention_kernels(q.dtype());
  const FlashInferKernels* flashinfer = flashinfer_for(run);
  const device::Kernel* kernel =
      flashinfer != nullptr ? flashinfer->decode : fragment_kernel(paths.planned, q);
  const device::Kernel* merge = flashinfer != nullptr ? flashinfer->merge : paths.merge;
  std::array<device::BufferUse, 9> uses;
  std::ranges::copy(attention_uses(run), uses.begin());
  uses[7] = reads(plan);
  uses[8] = writes(partials);
  (void)launch(
      stream(), kernel != nullptr ? *kernel : *paths.planned.by_rows, blocks, arguments, uses);
  // The second launch writes the rows of requests with parts and keeps the other rows.
  uses[0].access = device::BufferUse::Access::read_write;
  uses[8] = reads(partials);
  return launch(stream(), *merge, blocks, arguments, uses);
}

const FlashInferKernels* CudaExecutor::flashinfer_for(const OpRun& run) const {
  const AttentionOperands in(run.in);
  const Tensor& q = in["q"];
  const Tensor& out = in["out"];
  // FlashInfer writes head by head, and its parts of an odd number of heads are not aligned to 16
  // bytes.
  const bool fits = attention().query_len == 1 && run.call.attributes.sliding_window == 0 &&
                    is_aligned(q) && is_aligned(out) && out.stride(1) == q.size(2) &&
                    q.size(1) % 2 == 0;
  if (!fits) return nullptr;
  const auto found = std::ranges::find_if(options_.flashinfer, [&](const FlashInferKernels& one) {
    return one.dtype == q.dtype() && one.head_dim == q.size(2) &&
           one.group_size == q.size(1) / in["key_cache"].size(1);
  });
  return found == options_.flashinfer.end() ? nullptr : &*found;
}

}  // namespace reprise::kernels::cuda
