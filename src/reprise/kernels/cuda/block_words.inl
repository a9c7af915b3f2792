// What generated code and the kernels of this folder need of a thread block. block.cuh includes
// this file inside its namespace, and code generated for a GPU begins with its text (NVRTC). The
// file therefore includes nothing. REPRISE_DEVICE, BFloat16 and Float16 exist before it.

constexpr int kWarpSize = 32;
/// Columns that a thread takes at a time: 16 bytes of a 16-bit type.
constexpr int kColumns = 8;
/// A warp computes rows of up to this width, and a block computes wider rows.
constexpr int64_t kWidestWarpRow = 1024;

#if defined(__CUDACC__)
REPRISE_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
REPRISE_DEVICE int num_threads() { return static_cast<int>(blockDim.x); }
REPRISE_DEVICE uint32_t block_index() { return blockIdx.x; }
REPRISE_DEVICE void sync_block() { __syncthreads(); }
REPRISE_DEVICE void sync_warp() { __syncwarp(); }
REPRISE_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
/// With the attribute for it, lets the blocks of the next kernel start as soon as all blocks of
/// this kernel run. The next kernel waits for the end of this one where it needs the results.
REPRISE_DEVICE void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// Returns when all work ahead on the stream is done and visible. Before this call a kernel may
/// read only memory that no kernel writes: weights. Every thread calls it once, whether or not it
/// has work, so that the next kernel also waits for the kernels ahead of this one.
REPRISE_DEVICE void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
REPRISE_DEVICE float exponential(float x) { return expf(x); }
REPRISE_DEVICE float square_root(float x) { return sqrtf(x); }
REPRISE_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
REPRISE_DEVICE float as_float(float x) { return x; }
REPRISE_DEVICE float as_float(BFloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
REPRISE_DEVICE float as_float(Float16 x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}
REPRISE_DEVICE void put(float* out, float x) { *out = x; }
REPRISE_DEVICE void put(BFloat16* out, float x) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out->bits) : "f"(x));
}
REPRISE_DEVICE void put(Float16* out, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out->bits) : "f"(x));
}
#endif

REPRISE_DEVICE int lane_index() { return thread_index() % kWarpSize; }
REPRISE_DEVICE int warp_index() { return thread_index() / kWarpSize; }
REPRISE_DEVICE int num_warps() { return num_threads() / kWarpSize; }

REPRISE_DEVICE float warp_sum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

REPRISE_DEVICE float warp_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

/// The value that a store of x leaves in memory.
template <typename T>
REPRISE_DEVICE float rounded(float x) {
  T stored;
  put(&stored, x);
  return as_float(stored);
}
