#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reprise/kernels/element.h"

/// For tests: a thread block on the CPU. Every thread is a fiber of its own that runs until it has
/// to wait for others, so barriers, shuffles and tensor core products mean what they mean on a GPU,
/// and the source of the kernels is what runs. Blocks run one after the other.
namespace reprise::kernels::cuda {

struct HostLaunch {
  uint32_t num_blocks = 0;
  uint32_t first_block = 0;  // of those that run
  uint32_t last_block = 0;
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;
  bool must_wait = false;  // every thread for earlier kernels
};

/// Runs `kernel` once for every thread of the blocks. Shared memory starts as NaNs. Aborts when
/// threads wait for each other for ever: a barrier that not all of them reach; and when a thread
/// that must wait for earlier kernels ends without having done so.
void run_on_host(const HostLaunch& launch, const std::function<void()>& kernel);

/// While it lives, what earlier kernels are still at work on: until a block's threads have waited for
/// them, this memory holds NaNs, and a block that has written to it by then aborts.
class EarlierKernelsWork {
 public:
  explicit EarlierKernelsWork(std::vector<std::span<std::byte>> memory);
  EarlierKernelsWork(const EarlierKernelsWork&) = delete;
  EarlierKernelsWork& operator=(const EarlierKernelsWork&) = delete;
  ~EarlierKernelsWork();
};

// What block.cuh asks of the GPU. Only inside run_on_host.

int thread_index();
int num_threads();
uint32_t block_index();
uint32_t grid_size();
void sync_block();
float shuffle_xor(float value, int mask);
uint64_t shuffle_xor(uint64_t value, int mask);
int shuffle_from(int value, int lane);
bool warp_all(bool is);
char* shared_memory();
/// All threads of the block meet here.
void wait_for_earlier_kernels();
/// Nothing arrives before a wait for it.
void copy_words_async(void* shared, const void* from, bool there);
void commit_copies();
void wait_for_copies_but(int pending);
template <int kPending>
void wait_for_copies() {
  wait_for_copies_but(kPending);
}
inline void fence() {}
inline int atomic_add(int32_t* value, int amount) {
  const int before = *value;
  *value += amount;
  return before;
}
inline void atomic_add(uint64_t* value, uint64_t amount) { *value += amount; }
inline float exponential_2(float x) { return std::exp2(x); }
inline float exponential(float x) { return std::exp(x); }
inline float square_root(float x) { return std::sqrt(x); }
inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }

struct alignas(16) Words4 {
  uint32_t word[4];
};
inline Words4 load_words(const void* address) {
  Words4 words;
  __builtin_memcpy(&words, __builtin_assume_aligned(address, 16), sizeof(words));
  return words;
}
inline float load_fresh(const float* address) { return *address; }
inline void store_words(void* address, const Words4& words) {
  __builtin_memcpy(__builtin_assume_aligned(address, 16), &words, sizeof(words));
}
inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = (uint64_t{b} << 32) | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t digit = (selector >> (4 * i)) & 7U;
    result |= static_cast<uint32_t>((bytes >> (8 * digit)) & 0xffU) << (8 * i);
  }
  return result;
}

inline float float_of(uint32_t bits) { return bits_to_float(bits); }
inline uint32_t bits_of(float x) { return float_to_bits(x); }
inline float as_float(float x) { return x; }
inline float as_float(BFloat16 x) { return to_float(x); }
inline float as_float(Float16 x) { return to_float(x); }
inline void put(float* out, float x) { *out = x; }
inline void put(BFloat16* out, float x) { store_element(out, x); }
inline void put(Float16* out, float x) { store_element(out, x); }

/// The words that all lanes of the caller's warp brought, 8 for each.
const uint32_t* exchange_words(const uint32_t (&mine)[8]);

/// Source of the layout: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
template <typename T>
void multiply_fragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (sizeof(T) == 2) {
    const uint32_t mine[8] = {a[0], a[1], a[2], a[3], b[0], b[1], 0, 0};
    const uint32_t* all = exchange_words(mine);
    const auto half_of = [](uint32_t word, int index) {
      return as_float(T{static_cast<uint16_t>(word >> (16 * index))});
    };
    const auto a_at = [&](int row, int k) {
      const int lane = row % 8 * 4 + k % 8 / 2;
      return half_of(all[lane * 8 + row / 8 + k / 8 * 2], k % 2);
    };
    const auto b_at = [&](int k, int column) {
      const int lane = column * 4 + k % 8 / 2;
      return half_of(all[lane * 8 + 4 + k / 8], k % 2);
    };
    const int lane = thread_index() % 32;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      const int column = lane % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) c[i] += a_at(row, k) * b_at(k, column);
    }
  }
}

}  // namespace reprise::kernels::cuda
