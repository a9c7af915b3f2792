#include "reprise/kernels/cuda/cuda_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/eight_bit_product.h"
#include "reprise/kernels/cuda/head_product_launch.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/cuda/packed_launch.h"
#include "reprise/kernels/cuda/product_tuner.h"
#include "reprise/kernels/cuda/rank_launch.h"
#include "reprise/kernels/cuda/state_arguments.h"
#include "reprise/kernels/cuda/state_launch.h"
#include "reprise/kernels/kernel_table.inl"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/kernels/row_group/row_group.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::kernels::cuda {
namespace {

/// Whether the library's product and a launch for its epilogue take less time than one launch of
/// the project's own kernel. On an H200 a small launch takes about 2 us, and own products of 16 and
/// 32 rows take 2 us longer than the library's from about 12 and 7 MB of weights on
/// (benchmarks/results/2026-11-28-h200.md). With more than 32 rows they read the weight again.
bool is_worth_two_launches(int64_t rows, const Tensor& weight) {
  constexpr int64_t kMegabyte = 1'000'000;
  if (rows > kMostTileRows) return true;
  const auto bytes = static_cast<int64_t>(weight.type().bytes());
  return bytes >= (rows > kMostTileRows / 2 ? 7 : 12) * kMegabyte;
}

/// Whether the library's product and a launch for its epilogue are to be used, if there is a
/// library and it can.
bool wants_two_launches(const ProductChoice* choice, int64_t rows, const Tensor& weight) {
  if (choice != nullptr && choice->kernel != ProductChoice::Kernel::built_in) {
    return is_librarys(choice);
  }
  return rows >= GemmLibrary::kFewestRows && is_worth_two_launches(rows, weight);
}

/// Generated code computes a narrow row by a warp and a wide row by a block.
int64_t rows_per_block_on_gpu(int64_t elements_per_row) {
  constexpr int64_t kWidestWarpRow = 1024;
  return elements_per_row <= kWidestWarpRow ? kRowGroupThreads / 32 : 1;
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
    REPRISE_ROW_KERNELS(REPRISE_OP_OF_KERNEL, ) REPRISE_MODEL_KERNELS(REPRISE_OP_OF_KERNEL, )
#undef REPRISE_OP_OF_KERNEL
        OpCode::empty,
    OpCode::embedding,
    OpCode::quantize_blocks,
    OpCode::rms_norm_quantize_blocks,
    OpCode::quantize_per_token,
    OpCode::quantize_static,
    OpCode::rms_norm_quant,
    OpCode::fused_add_rms_norm_quant,
    OpCode::silu_and_mul_quant,
    OpCode::gather_rows,
    OpCode::kv_write};

/// A recurrent layer. With batch invariance its prompts have the bits of decoding.
bool launch_recurrence(const OpRun& run) {
  const auto& executor = static_cast<const CudaExecutor&>(run.executor);
  const bool has_chunks = executor.state_chunk_tokens(run.in[0].dtype()) > 1;
  return launch_states(run, has_chunks ? PromptStates::in_chunks : PromptStates::token_after_token);
}

/// A build without code for compute capability 9 runs there too: the driver compiles its PTX, in
/// which these kernels are empty.
bool runs_streamed_kernels(device::Device& device) {
  auto& gpu = dynamic_cast<device::cuda::CudaDevice&>(device);
  return gpu.driver().attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9 &&
         gpu.code().architecture_of(row_kernels().gather_rows) >= 90;
}

/// The most dynamic shared memory that a kernel can ask for.
uint32_t most_shared_bytes(device::Device& device) {
  const device::cuda::Driver& driver = dynamic_cast<device::cuda::CudaDevice&>(device).driver();
  return static_cast<uint32_t>(
      driver.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
}

/// Code for sm_90a runs only there.
bool runs_flashinfer_prompts(device::Device& device) {
  const device::cuda::Driver& driver = dynamic_cast<device::cuda::CudaDevice&>(device).driver();
  return driver.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9 &&
         driver.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0;
}

/// Whether the last operand is the norm of the rows of a product.
bool has_norm_of_rows(const OpRun& run) {
  const OpRule& rule = definition_of(run.call.code).rule;
  return run.in.back().defined() && rule.operands[rule.operands.size - 1].name == "norm";
}

bool launch_among_ranks(const OpRun& run) {
  return launch_collective(run, static_cast<const CudaExecutor&>(run.executor).device_ranks());
}

}  // namespace

CudaExecutor::CudaExecutor(device::Stream& stream,
                           device::MemoryPool& pool,
                           const CudaExecutorOptions& options)
    : DeviceExecutor(stream, pool, row_kernels(), launches()), options_(options) {
  device::Device& device = stream.device();
  for (const device::Kernel* kernel : usual_kernels()) device.load(*kernel);
  block_shared_bytes_ = most_shared_bytes(device);
  for (const device::Kernel* kernel : large_kernels()) {
    if (kernel->cuda.shared_bytes <= block_shared_bytes_) device.load(*kernel);
  }
  has_streamed_kernels_ = runs_streamed_kernels(device);
  if (has_streamed_kernels_) {
    for (const device::Kernel* kernel : streamed_kernels()) device.load(*kernel);
  }
  for (const FlashInferDecode& kernels : options.flashinfer.planned) {
    device.load(*kernels.decode);
    device.load(*kernels.merge);
  }
  for (const FlashInferHeads& kernels : options.flashinfer.heads) device.load(*kernels.decode);
  if (!runs_flashinfer_prompts(device)) options_.flashinfer.prompts = {};
  for (const FlashInferPromptKernel& prompts : options_.flashinfer.prompts) {
    device.load(*prompts.kernel);
  }
  partial_rows_ =
      std::max(options.partial_rows, most_prefill_partial_rows(options.num_multiprocessors));
  const auto rows = static_cast<size_t>(partial_rows_);
  partials_ = device.allocate(rows * kPartialRowFloats * sizeof(float));
  arrived_ = device.allocate(rows * sizeof(int32_t));
  if (options.cublas_lt != nullptr && options.invariance == BatchInvariance::not_required) {
    gemm_ = std::make_unique<GemmLibrary>(*options.cublas_lt,
                                          dynamic_cast<device::cuda::CudaStream&>(stream));
  }
  tuner_ = std::make_unique<ProductTuner>(*this);
}

std::vector<ScratchMemory> CudaExecutor::scratch() const {
  std::vector<ScratchMemory> memory{
      {.name = "partial sums", .memory = partials_.view()},
      {.name = "counters of parts", .memory = arrived_.view(), .keeps_content = true}};
  if (gemm_ != nullptr) memory.push_back({.name = "cuBLASLt", .memory = gemm_->workspace()});
  return memory;
}

std::string CudaExecutor::remark_on(PanelFormat codec, DType dtype) {
  if (gemm_ == nullptr || !may_quantize_activations()) return {};
  if (can_multiply_in_eight_bits(*this, *gemm_, codec, dtype)) return {};
  return fmt::format(
      "cuBLASLt has no float8 products with the scales of {} for {}: these weights become {} for "
      "prompts, which take as long as with unquantised weights",
      codec_name(codec),
      stream().device().name(),
      dtype_name(dtype));
}

TunableProducts* CudaExecutor::tunable_products() noexcept { return tuner_.get(); }

bool CudaExecutor::multiply(const ProductChoice* choice,
                            const Tensor& x,
                            const Tensor& weight,
                            const Tensor& bias,
                            const Tensor& out) {
  if (gemm_ == nullptr || is_own(choice)) return false;
  if (!is_librarys(choice)) return gemm_->multiply(x, weight, bias, out);
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(*choice);
  return gemm_->multiply(x, weight, bias, out, {}, &algorithm);
}

Tensor CudaExecutor::product_of(const ProductCall& call, std::span<const Tensor> in) {
  if (gemm_ == nullptr || !wants_two_launches(call.choice, in[0].size(0), in[1])) return {};
  Tensor product = allocate({in[0].dtype(), {in[0].size(0), in[1].size(0)}});
  if (!multiply(call.choice, in[0], in[1], in[2], product)) return {};
  return product;
}

template <CudaExecutor::LaunchProduct kLaunch>
bool CudaExecutor::launch_product(const OpRun& run) {
  auto& executor = static_cast<CudaExecutor&>(run.executor);
  const Tensor& weight = run.in[1];
  const bool is_packed = !weight.layout().is_rows();
  const Tensor none;
  const Tensor& last = run.in.back();
  const bool has_norm = has_norm_of_rows(run);
  // For packed weights launch_packed_linear() decides whether the norm is a launch of its own.
  const bool can_norm = is_packed || can_norm_first(run.in[0], weight, last);
  if (has_norm && !can_norm) return launch_norm_apart(run);
  if (is_packed && run.call.code != OpCode::linear_rope_kv_write) return launch_packed(run);
  const ProductChoice* choice = executor.choices_.of(run, has_norm);
  if (has_norm && is_librarys(choice)) {
    // The library knows no norm. The same choice then holds for the product without it.
    const ForcedChoice forced(executor.choices_, *choice);
    return launch_norm_apart(run);
  }
  return (executor.*kLaunch)(
      {.norm = {.weight = has_norm ? last : none, .epsilon = run.call.attributes.epsilon},
       .choice = choice},
      run);
}

PackedMachine CudaExecutor::packed_machine(const ProductChoice* choice) const {
  return {.num_multiprocessors = options_.num_multiprocessors,
          .library = gemm_.get(),
          .is_streamed = cuda::is_streamed(choice)};
}

bool CudaExecutor::launch_packed(const OpRun& run) {
  auto& executor = static_cast<CudaExecutor&>(run.executor);
  const ProductChoice* choice = executor.choices_.of(run, has_norm_of_rows(run));
  return launch_packed_product(run, executor.packed_machine(choice));
}

bool CudaExecutor::launch_experts(const OpRun& run) {
  if (can_multiply_experts(run.in[0], run.in[1])) return launch_packed(run);
  return cpu_launches()[static_cast<size_t>(OpCode::expert_linear)](run);
}

int CudaExecutor::state_chunk_tokens(DType dtype) const noexcept {
  const bool is_invariant = options_.invariance == BatchInvariance::required;
  return is_invariant || dtype == DType::f32 ? 1 : kStateChunkTokens;
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
    set(OpCode::linear_silu_and_mul_quantize_blocks, launch_packed);
    set(OpCode::expert_linear, launch_experts);
    set(OpCode::head_linear, launch_head_product);
    set(OpCode::causal_conv1d, launch_state_convolution);
    set(OpCode::short_conv, launch_state_convolution);
    set(OpCode::gated_delta_rule, launch_recurrence);
    set(OpCode::selective_state_update, launch_recurrence);
    for (OpCode op : {OpCode::attention,
                      OpCode::attention_with_sinks,
                      OpCode::attention_with_biases,
                      OpCode::encoder_attention}) {
      set(op, [](const OpRun& run) {
        return static_cast<CudaExecutor&>(run.executor).launch_attention(run);
      });
    }
    set(OpCode::mla_attention, [](const OpRun& run) {
      // Attention over chosen positions has the launch of the CPU.
      if (run.operands<OpCode::mla_attention>()["index_q"].defined()) {
        return cpu_launches()[static_cast<size_t>(OpCode::mla_attention)](run);
      }
      return static_cast<CudaExecutor&>(run.executor).launch_attention(run);
    });
    for (OpCode op : {OpCode::all_reduce,
                      OpCode::reduce_scatter,
                      OpCode::all_gather,
                      OpCode::gather_columns,
                      OpCode::fused_all_reduce_add_rms_norm,
                      OpCode::linear_reduce_scatter,
                      OpCode::all_gather_linear}) {
      set(op, launch_among_ranks);
    }
    set(OpCode::local_experts, launch_local_experts);
    set(OpCode::row_group, launch_group);
    set(OpCode::custom, launch_custom);
    return launches;
  }();
  return table;
}

bool CudaExecutor::launch_own(const LinearKernels& kernels,
                              const ProductCall& call,
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
                              .norm = call.norm,
                              .tiles = tiles_of(call.choice)});
}

bool CudaExecutor::linear(const ProductCall& call, const OpRun& run) {
  const auto in = run.operands<OpCode::linear>();
  return multiply(call.choice, in["x"], in["weight"], in["bias"], run.out[0]) ||
         launch_own(linear_kernels(in["x"].dtype()), call, run.in, {}, run.out[0]);
}

bool CudaExecutor::linear_add(const ProductCall& call, const OpRun& run) {
  const auto in = run.operands<OpCode::linear_add>();
  if (const Tensor product = product_of(call, run.in); product.defined()) {
    return launch_add(stream(), kernels(), in["residual"], product, run.out[0]);
  }
  return launch_own(linear_kernels(in["x"].dtype()), call, run.in, in["residual"], run.out[0]);
}

bool CudaExecutor::linear_silu_and_mul(const ProductCall& call, const OpRun& run) {
  if (const Tensor product = product_of(call, run.in); product.defined()) {
    return launch_silu_and_mul(stream(), kernels(), product, run.out[0]);
  }
  const LinearKernels kernels = linear_silu_and_mul_kernels(run.in[0].dtype());
  return launch_own(kernels, call, run.in, {}, run.out[0]);
}

bool CudaExecutor::lm_head(const ProductCall& call, const OpRun& run) {
  const auto in = run.operands<OpCode::lm_head>();
  const Tensor none;
  // The library computes all rows, because only the device knows the number of wanted rows.
  return multiply(call.choice, in["x"], in["weight"], none, run.out[0]) ||
         cuda::launch_linear(stream(),
                             lm_head_kernels(in["x"].dtype()),
                             options_.num_multiprocessors,
                             {.x = in["x"],
                              .weight = in["weight"],
                              .bias = none,
                              .residual = none,
                              .num_rows = in["num_rows"],
                              .out = run.out[0],
                              .norm = call.norm,
                              .tiles = tiles_of(call.choice)});
}

bool CudaExecutor::linear_rope_kv_write(const ProductCall& call, const OpRun& run) {
  const auto in = run.operands<OpCode::linear_rope_kv_write>();
  const Tensor& x = in["x"];
  const Tensor& weight = in["weight"];
  const RopeAndCacheCall heads_call = rope_and_cache_call<OpCode::linear_rope_kv_write>(run);
  // The product's epilogue sees pairs of elements. A head of a cache of eight bits can have a scale
  // for all its elements, so the second launch writes these caches.
  const bool has_codes = heads_call.key_cache.dtype() != x.dtype();
  const int64_t tokens = x.size(0);
  const bool is_packed = !weight.layout().is_rows();
  const bool has_two_launches = gemm_ != nullptr && wants_two_launches(call.choice, tokens, weight);
  if (!has_codes && !is_packed && !has_two_launches &&
      cuda::launch_linear_rope_kv_write(stream(),
                                        options_.num_multiprocessors,
                                        x,
                                        weight,
                                        in["bias"],
                                        heads_call,
                                        call.norm,
                                        tiles_of(call.choice))) {
    return true;
  }
  if (is_packed && launch_packed_rope_kv_write(run,
                                               {.x = x,
                                                .weight = weight,
                                                .out = PackedCall::kLeftOut,
                                                .bias = in["bias"],
                                                .norm = call.norm},
                                               heads_call,
                                               packed_machine(call.choice))) {
    return true;
  }
  // Uses two launches: the matrix product is stored in memory of the pool.
  const int64_t columns = weight.size(0);
  const int64_t heads = heads_call.q_out.size(1);
  const int64_t kv_heads = heads_call.key_cache.size(1);
  const int64_t head_dim = heads_call.q_out.size(2);
  const Tensor product = allocate({x.dtype(), {rows_with_room(tokens), columns}});
  if (is_packed) {
    launch_packed_linear(
        run,
        {.x = x, .weight = weight, .out = product, .bias = in["bias"], .norm = call.norm},
        packed_machine(call.choice));
  } else if (!multiply(call.choice, x, weight, in["bias"], product)) {
    launch_own(linear_kernels(x.dtype()), call, run.in, {}, product);
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
                              heads_call);
}

}  // namespace reprise::kernels::cuda
