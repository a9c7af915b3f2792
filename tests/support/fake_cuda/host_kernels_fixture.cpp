#include "tests/support/fake_cuda/host_kernels_fixture.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/cuda/adapter_kernels.cuh"
#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/chunked_state_kernels.cuh"
#include "reprise/kernels/cuda/count_experts.cuh"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/eight_bit_kernels.cuh"
#include "reprise/kernels/cuda/expert_kernels.cuh"
#include "reprise/kernels/cuda/fixed_attention_kernels.cuh"
#include "reprise/kernels/cuda/float_panel_kernels.cuh"
#include "reprise/kernels/cuda/head_kernels.cuh"
#include "reprise/kernels/cuda/head_product_kernels.cuh"
#include "reprise/kernels/cuda/int8_form.cuh"
#include "reprise/kernels/cuda/kernel_list.inl"
#include "reprise/kernels/cuda/latent_attention_kernels.cuh"
#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/logprob_kernels.cuh"
#include "reprise/kernels/cuda/norm_kernels.cuh"
#include "reprise/kernels/cuda/packed_expert_kernels.cuh"
#include "reprise/kernels/cuda/packed_linear_kernels.cuh"
#include "reprise/kernels/cuda/packed_row_kernels.cuh"
#include "reprise/kernels/cuda/planned_attention_kernels.cuh"
#include "reprise/kernels/cuda/prefill_attention_kernels.cuh"
#include "reprise/kernels/cuda/quantize_kernels.cuh"
#include "reprise/kernels/cuda/rank_kernels.cuh"
#include "reprise/kernels/cuda/rope_kernels.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/cuda/sparse_attention_kernels.cuh"
#include "reprise/kernels/cuda/staged_linear_kernels.cuh"
#include "reprise/kernels/cuda/state_kernels.cuh"
#include "reprise/kernels/cuda/streamed_expert_kernels.cuh"
#include "reprise/kernels/cuda/streamed_linear_kernels.cuh"
#include "reprise/kernels/cuda/streamed_packed_kernels.cuh"
#include "reprise/kernels/cuda/wide_expert_kernels.cuh"

namespace reprise::kernels::cuda {
namespace {

template <typename Arguments, typename Function>
void run_blocks(const Function& function, const void* raw, HostLaunch launch) {
  const auto& arguments = *static_cast<const Arguments*>(raw);
  run_on_host(launch, [&] { function(arguments); });
}

#define REPRISE_HOST_FUNCTION(kernel, Arguments, threads, shared, wait, ...)                 \
  void run_blocks_of_##kernel(const void* raw, uint32_t all, uint32_t begin, uint32_t end) { \
    run_blocks<Arguments>(                                                                   \
        [](const Arguments& arguments) {                                                     \
          wait;                                                                              \
          __VA_ARGS__(arguments);                                                            \
        },                                                                                   \
        raw,                                                                                 \
        {.num_blocks = all,                                                                  \
         .first_block = begin,                                                               \
         .last_block = end,                                                                  \
         .threads_per_block = threads,                                                       \
         .shared_bytes = shared,                                                             \
         .must_wait = true});                                                                \
  }                                                                                          \
  void run_range_of_##kernel(const void* raw, device::BlockRange blocks) noexcept {          \
    run_blocks_of_##kernel(raw, blocks.end, blocks.begin, blocks.end);                       \
  }
#define REPRISE_HOST_LATE_FUNCTION(kernel, Arguments, threads, shared, ...) \
  REPRISE_HOST_FUNCTION(kernel, Arguments, threads, shared, wait_for_earlier_kernels(), __VA_ARGS__)
REPRISE_CUDA_LATE_KERNELS(REPRISE_HOST_LATE_FUNCTION)
REPRISE_CUDA_LARGE_KERNELS(REPRISE_HOST_LATE_FUNCTION)
#undef REPRISE_HOST_LATE_FUNCTION
#define REPRISE_HOST_EARLY_FUNCTION(kernel, Arguments, threads, shared, ...) \
  REPRISE_HOST_FUNCTION(kernel, Arguments, threads, shared, , __VA_ARGS__)
REPRISE_CUDA_EARLY_KERNELS(REPRISE_HOST_EARLY_FUNCTION)
REPRISE_CUDA_STREAMED_KERNELS(REPRISE_HOST_EARLY_FUNCTION)
#undef REPRISE_HOST_EARLY_FUNCTION
#undef REPRISE_HOST_FUNCTION

#define REPRISE_HOST_RANGE(kernel, ...) {"reprise_" #kernel, run_range_of_##kernel},
const std::map<std::string, device::CpuKernelFunction>& range_functions() {
  static const std::map<std::string, device::CpuKernelFunction> functions = {
      REPRISE_CUDA_KERNELS(REPRISE_HOST_RANGE)};
  return functions;
}
#undef REPRISE_HOST_RANGE

void add_function(device::Kernel& kernel) {
  if (kernel.cuda.function != nullptr) kernel.cpu = range_functions().at(kernel.cuda.function);
}

KernelTable make_row_kernels() {
  KernelTable table = row_kernels();
#define REPRISE_ROW_KERNEL(context, name, ...) &table.name,
  for (FloatKernels* kernels :
       {REPRISE_ROW_KERNELS(REPRISE_ROW_KERNEL, ) REPRISE_MODEL_KERNELS(REPRISE_ROW_KERNEL, )}) {
    add_function(kernels->f32);
    add_function(kernels->bf16);
    add_function(kernels->f16);
  }
#undef REPRISE_ROW_KERNEL
  for (FloatKernels* kernels : {&table.kv_write_quant,
                                &table.sparse_attention,
                                &table.quantize_blocks,
                                &table.rms_norm_quantize_blocks,
                                &table.block_embedding,
                                &table.int8_embedding}) {
    add_function(kernels->f32);
    add_function(kernels->bf16);
    add_function(kernels->f16);
  }
  for (QuantKernels* kernels : {&table.quantize_per_token,
                                &table.quantize_static,
                                &table.rms_norm_quant,
                                &table.fused_add_rms_norm_quant,
                                &table.silu_and_mul_quant}) {
    for (FloatKernels* of_type : {&kernels->i8, &kernels->f8e4m3}) {
      add_function(of_type->f32);
      add_function(of_type->bf16);
      add_function(of_type->f16);
    }
  }
  add_function(table.gather_rows);
  add_function(table.kv_write);
  return table;
}

}  // namespace

const std::map<std::string, HostKernel>& host_kernels() {
#define REPRISE_HOST_KERNEL(kernel, Arguments, ...) \
  {"reprise_" #kernel, {sizeof(Arguments), run_blocks_of_##kernel}},
  static const std::map<std::string, HostKernel> kernels = {
      REPRISE_CUDA_KERNELS(REPRISE_HOST_KERNEL)};
#undef REPRISE_HOST_KERNEL
  return kernels;
}

const KernelTable& row_kernels_on_host() {
  static const KernelTable table = make_row_kernels();
  return table;
}

}  // namespace reprise::kernels::cuda
