// The image of all kernels: one __global__ function per line of kernel_list.inl.
#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/kernel_list.inl"
#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/planned_attention_kernels.cuh"
#include "reprise/kernels/cuda/rope_kernels.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/cuda/sampling_kernels.cuh"

namespace reprise::kernels::cuda {

// Launched with the attribute for it, the next kernel's blocks may be placed as soon as all of ours
// run, and wait where ours waited: for everything ahead to be done and visible. Without the attribute
// both return at once.
__device__ __forceinline__ void begin_programmatic_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#define REPRISE_CUDA_DEFINE(name, Arguments, threads, shared, ...)                 \
  extern "C" __global__ void __launch_bounds__(threads)                            \
      reprise_##name(const __grid_constant__ Arguments arguments) {                \
    begin_programmatic_launch();                                                   \
    __VA_ARGS__(arguments);                                                        \
  }
REPRISE_CUDA_KERNELS(REPRISE_CUDA_DEFINE)
#undef REPRISE_CUDA_DEFINE

}  // namespace reprise::kernels::cuda
