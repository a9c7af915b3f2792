// The image of all kernels: one __global__ function per line of kernel_list.inl.
#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/cuda/adapter_kernels.cuh"
#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/chunked_state_kernels.cuh"
#include "reprise/kernels/cuda/count_experts.cuh"
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

#define REPRISE_CUDA_DEFINE_LATE(name, Arguments, threads, shared, ...) \
  extern "C" __global__ void __launch_bounds__(threads)                 \
      reprise_##name(const __grid_constant__ Arguments arguments) {     \
    let_next_kernel_begin();                                            \
    wait_for_earlier_kernels();                                         \
    __VA_ARGS__(arguments);                                             \
  }
REPRISE_CUDA_LATE_KERNELS(REPRISE_CUDA_DEFINE_LATE)
REPRISE_CUDA_LARGE_KERNELS(REPRISE_CUDA_DEFINE_LATE)
#undef REPRISE_CUDA_DEFINE_LATE

#define REPRISE_CUDA_DEFINE_EARLY(name, Arguments, threads, shared, ...)   \
  extern "C" __global__ void __launch_bounds__(threads, kBlocksOfProducts) \
      reprise_##name(const __grid_constant__ Arguments arguments) {        \
    let_next_kernel_begin();                                               \
    __VA_ARGS__(arguments);                                                \
  }
REPRISE_CUDA_EARLY_KERNELS(REPRISE_CUDA_DEFINE_EARLY)
REPRISE_CUDA_STREAMED_KERNELS(REPRISE_CUDA_DEFINE_EARLY)
#undef REPRISE_CUDA_DEFINE_EARLY

}  // namespace reprise::kernels::cuda
