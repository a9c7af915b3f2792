// The image of all kernels: one __global__ function per line of kernel_list.inl.
#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/kernel_list.inl"
#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/rope_kernels.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/cuda/sampling_kernels.cuh"

namespace reprise::kernels::cuda {

#define REPRISE_CUDA_DEFINE(name, Arguments, threads, shared, ...)                 \
  extern "C" __global__ void __launch_bounds__(threads)                            \
      reprise_##name(const __grid_constant__ Arguments arguments) {                \
    __VA_ARGS__(arguments);                                                        \
  }
REPRISE_CUDA_KERNELS(REPRISE_CUDA_DEFINE)
#undef REPRISE_CUDA_DEFINE

}  // namespace reprise::kernels::cuda
