#pragma once

// For tests: FlashInfer's functions on the CPU. The headers of FlashInfer that contain PTX are
// replaced by their functions over host_block_fixture.h; those with the algorithms are compiled
// unchanged. In the end it includes the project's tile, because the order matters.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cuda/std/limits>
#include <type_traits>

#include "reprise/kernels/cuda/block.cuh"

// nvcc declares these words by itself, so FlashInfer's headers use them without an include. No test
// calls the functions and kernels that need the variables, or a function without a body here.
#undef __launch_bounds__
#define __launch_bounds__(...)
inline const uint3 threadIdx{}, blockIdx{};
inline const dim3 blockDim, gridDim;
inline void __syncthreads() { reprise::kernels::cuda::sync_block(); }
template <typename T>
T __ldg(const T* place) {
  return *place;
}
template <typename T>
T __ldca(const T* place) {
  return *place;
}
unsigned int __byte_perm(unsigned int, unsigned int, unsigned int);
unsigned int __shfl_sync(unsigned int, unsigned int, int);
unsigned int __shfl_xor_sync(unsigned int, unsigned int, int);
float __frcp_rn(float);

namespace cooperative_groups {
struct thread_block {
  void sync() const { reprise::kernels::cuda::sync_block(); }
};
inline thread_block this_thread_block() { return {}; }
}  // namespace cooperative_groups

// The header guards of the replaced files.
#define FLASHINFER_CP_ASYNC_CUH_
#define FLASHINFER_MATH_CUH_
#define FLASHINFER_MMA_CUH_
#define FLASHINFER_CASCADE_CUH_
#define FLASHINFER_POS_ENC_CUH_

#define FLASHINFER_RUNTIME_ASSERT(message) __builtin_trap()

namespace flashinfer {

enum class PosEncodingMode { kNone = 0U, kRoPELlama = 1U, kALiBi = 2U };

// As in CUDA: if one of the two is NaN, the result is the other one.
template <typename A, typename B>
auto max(A a, B b) {
  if constexpr (std::is_floating_point_v<A>)
    return std::fmax(a, b);
  else
    return a > b ? a : b;
}
template <typename A, typename B>
auto min(A a, B b) {
  if constexpr (std::is_floating_point_v<A>)
    return std::fmin(a, b);
  else
    return a < b ? a : b;
}

namespace math {
inline constexpr float log2e = 1.44269504088896340736F;
inline constexpr float inf = cuda::std::numeric_limits<float>::infinity();
inline float ptx_exp2(float x) { return std::exp2(x); }
inline float ptx_log2(float x) { return std::log2(x); }
inline float ptx_rcp(float x) { return 1.0F / x; }
inline float tanh(float x) { return std::tanh(x); }
inline float shfl_xor_sync(float x, int mask) {
  return reprise::kernels::cuda::shuffle_xor(x, mask);
}
half2 ptx_exp2(half2 x);
half2 shfl_xor_sync(half2 x, int mask);
}  // namespace math

namespace cp_async {
enum class SharedMemFillMode { kFillZero, kNoFill };
enum class PrefetchMode { kNoPrefetch, kPrefetch };
inline void commit_group() { reprise::kernels::cuda::commit_copies(); }
template <size_t kPending>
void wait_group() {
  reprise::kernels::cuda::wait_for_copies<static_cast<int>(kPending)>();
}
template <PrefetchMode, SharedMemFillMode kFill, typename T>
void pred_load_128b(T* shared, const T* from, bool is_there) {
  static_assert(sizeof(T) == 16);
  if (is_there || kFill == SharedMemFillMode::kFillZero) {
    reprise::kernels::cuda::copy_words_async(shared, from, is_there);
  }
}
template <PrefetchMode, typename T>
void load_128b(T* shared, const T* from) {
  reprise::kernels::cuda::copy_words_async(shared, from, true);
}
template <SharedMemFillMode, typename T>
void pred_load_32b(T*, const T*, bool);
template <PrefetchMode, SharedMemFillMode, typename T>
void pred_load_128b_from_64b(T*, const T*, bool) {
  __builtin_trap();
}
}  // namespace cp_async

namespace mma {
enum class MMAMode { kInit = 0U, kInplaceUpdate = 1U };

template <typename T>
using ElementOf = std::conditional_t<std::is_same_v<T, half>, reprise::Float16, reprise::BFloat16>;

template <typename T>
void ldmatrix_m8n8x4(uint32_t* words, T* row) {
  uint32_t loaded[4];
  reprise::kernels::cuda::load_fragments(loaded, reprise::kernels::cuda::shared_address(row));
  for (int i = 0; i < 4; ++i) words[i] = loaded[i];
}
template <typename T>
void ldmatrix_m8n8x4_trans(uint32_t* words, T* row) {
  uint32_t loaded[4];
  reprise::kernels::cuda::load_fragments_transposed(loaded,
                                                    reprise::kernels::cuda::shared_address(row));
  for (int i = 0; i < 4; ++i) words[i] = loaded[i];
}
template <typename T>
void ldmatrix_m8n8x4_left_half(uint32_t*, T*);
template <typename T>
void ldmatrix_m8n8x4_right_half(uint32_t*, T*);
template <typename T>
void ldmatrix_m8n8x4_trans_left_half(uint32_t*, T*);
template <typename T>
void ldmatrix_m8n8x4_trans_right_half(uint32_t*, T*);
template <typename T>
void stmatrix_m8n8x4(uint32_t*, T*);

/// c[16, 16] += a[16, 16] b[16, 16], as two products with eight columns each.
template <typename T, MMAMode kMode = MMAMode::kInplaceUpdate>
void mma_sync_m16n16k16_row_col_f16f16f32(float* c, uint32_t* a, uint32_t* b) {
  for (int i = 0; i < 2; ++i) {
    float sums[4];
    for (int j = 0; j < 4; ++j) sums[j] = kMode == MMAMode::kInit ? 0.0F : c[4 * i + j];
    reprise::kernels::cuda::multiply_fragments<ElementOf<T>>(
        sums, {a[0], a[1], a[2], a[3]}, {b[2 * i], b[2 * i + 1]});
    for (int j = 0; j < 4; ++j) c[4 * i + j] = sums[j];
  }
}
template <MMAMode kMode = MMAMode::kInplaceUpdate>
void mma_sync_m16n16k16_row_col_f16f16f16(uint32_t*, uint32_t*, uint32_t*);

/// d += the sums of the rows of s[16, 16], by a product with ones, of which column 0 counts.
template <typename T>
void m16k16_rowsum_f16f16f32(float* d, T* s) {
  if constexpr (sizeof(T) == 2) {
    const auto* words = reinterpret_cast<const uint32_t*>(s);
    constexpr uint32_t kOnes = std::is_same_v<T, half> ? 0x3C003C00U : 0x3F803F80U;
    float sums[4] = {d[0], 0, d[1], 0};
    reprise::kernels::cuda::multiply_fragments<ElementOf<T>>(
        sums, {words[0], words[1], words[2], words[3]}, {kOnes, kOnes});
    d[0] = sums[0];
    d[1] = sums[2];
  }
}
template <typename T>
void m16k32_rowsum_f8f8f32(float*, T*);
template <typename T, MMAMode kMode = MMAMode::kInplaceUpdate>
void mma_sync_m16n16k32_row_col_f8f8f32(float*, uint32_t*, uint32_t*);
}  // namespace mma

}  // namespace flashinfer

#include "reprise/kernels/cuda/flashinfer_tile.cuh"
