#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reprise/base/element.h"

/// For tests: runs thread blocks on the CPU. Every GPU thread is a fiber that runs until it must
/// wait for other threads. Barriers, shuffles and tensor core products therefore behave as on a
/// GPU, and the unchanged source of the kernels runs.
namespace reprise::kernels::cuda {

struct HostLaunch {
  uint32_t num_blocks = 0;
  uint32_t first_block = 0;  // of the blocks to run
  uint32_t last_block = 0;
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;
  bool must_wait = false;  // every thread must wait for earlier kernels
};

/// Runs `kernel` once for every thread of the blocks. Shared memory starts as NaNs. Aborts on a
/// deadlock, such as a barrier that not all threads reach, and when a thread that must wait for
/// earlier kernels ends without waiting.
///
/// The order number of a launch decides which of the ready threads runs next. 0: by index, block
/// after block. Other numbers: several blocks exist at the same time, and their warps and lanes run
/// in a random order that depends on the number, so that some orders reveal a missing barrier. A
/// launch uses the number of a HostOrder; without one, the number of its host thread's previous
/// launch plus one.
void run_on_host(const HostLaunch& launch, const std::function<void()>& kernel);

/// While this object exists, launches of its thread run in the order `number`.
class HostOrder {
 public:
  explicit HostOrder(uint64_t number);
  HostOrder(const HostOrder&) = delete;
  HostOrder& operator=(const HostOrder&) = delete;
  ~HostOrder();
};

/// While this object exists, earlier kernels still write this memory. Until the threads of a block
/// have waited for these kernels, the memory holds NaNs, and a block that writes to it aborts.
/// Blocks run one after the other.
class EarlierKernelsWork {
 public:
  explicit EarlierKernelsWork(std::vector<std::span<std::byte>> memory);
  EarlierKernelsWork(const EarlierKernelsWork&) = delete;
  EarlierKernelsWork& operator=(const EarlierKernelsWork&) = delete;
  ~EarlierKernelsWork();
};

/// The number of bank conflicts since the host thread's last call. A conflict: two of the eight
/// rows that load_fragments reads together are in the same banks of shared memory. On a GPU each
/// conflict costs as much as the load itself.
uint64_t take_bank_conflicts();

// The functions below replace functions that block.cuh takes from the GPU otherwise. They work only
// inside run_on_host.

/// The thread of a block that runs now. A read of this variable is one load.
struct HostThread {
  int index = 0;
  int num_threads = 0;
  uint32_t block = 0;
  uint32_t grid = 0;  // blocks
};
extern constinit thread_local HostThread host_thread;

inline int thread_index() { return host_thread.index; }
inline int num_threads() { return host_thread.num_threads; }
inline uint32_t block_index() { return host_thread.block; }
inline uint32_t grid_size() { return host_thread.grid; }
void sync_block();
void sync_warp();
void sync_first(int threads);
template <int kThreads>
void sync_first_threads() {
  sync_first(kThreads);
}
float shuffle_xor(float value, int mask);
uint64_t shuffle_xor(uint64_t value, int mask);
int shuffle_from(int value, int lane);
bool warp_all(bool is);
char* shared_memory();
inline int same_again(int value) { return value; }
uint32_t shared_address(const void* place);
/// Waits for earlier kernels; all threads of the block must call it.
void wait_for_earlier_kernels();
/// Lets other threads run.
void give_way();
inline void fence() { give_way(); }
inline int atomic_add(int32_t* value, int amount) {
  give_way();
  const int before = *value;
  *value += amount;
  return before;
}
inline void atomic_add(uint64_t* value, uint64_t amount) { *value += amount; }
inline float exponential_2(float x) { return std::exp2(x); }
inline float fast_exponential_2(float x) { return std::exp2(x); }
inline float larger(float a, float b) { return std::fmax(a, b); }
inline float error_function(float x) { return std::erf(x); }
inline float hyperbolic_tangent(float x) { return std::tanh(x); }
inline float log_1p(float x) { return std::log1p(x); }
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
struct alignas(8) Words2 {
  uint32_t word[2];
};
inline Words2 load_two_words(const void* address) {
  Words2 words;
  __builtin_memcpy(&words, __builtin_assume_aligned(address, 8), sizeof(words));
  return words;
}
inline uint32_t load_word(const void* address) {
  uint32_t word;
  __builtin_memcpy(&word, __builtin_assume_aligned(address, 4), sizeof(word));
  return word;
}
inline uint32_t load_half_word(const void* address) {
  uint16_t word;
  __builtin_memcpy(&word, __builtin_assume_aligned(address, 2), sizeof(word));
  return word;
}
template <typename T>
T load_fresh(const T* address) {
  return *address;
}
inline Words4 load_fresh_words(const void* address) { return load_words(address); }
inline void store_words(void* address, const Words4& words) {
  __builtin_memcpy(__builtin_assume_aligned(address, 16), &words, sizeof(words));
}
inline int32_t add_codes(uint32_t word, int32_t sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(word >> (8 * i));
  return sum;
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

/// Copies asynchronously: until the calling thread has waited for the copy, the destination holds
/// NaNs, because neither its old nor its new content may be used.
void copy_words_async(void* shared, const void* from, bool there);
void copy_pair_async(void* shared, const void* from, bool there);
void commit_copies();
void wait_for_copies_but(int pending);
template <int kPending>
void wait_for_copies() {
  wait_for_copies_but(kPending);
}

/// A barrier of bulk copies; see host_bulk_copies_fixture.h. A wrong number of arrivals or bytes
/// aborts, with the state of all barriers of the block.
struct alignas(8) PhaseBarrier {
  uint64_t state;
  void begin(int arrivals);
  void arrive();
  void arrive_as_warp(int bytes);
  void wait(int parity);
};
inline void let_copies_see_barriers() {}
/// The bytes arrive as late as a thread allows that needs them, or at a random moment before. Until
/// then the destination holds NaNs.
void copy_bulk(void* shared, const void* from, int bytes, PhaseBarrier& barrier);

/// Source of the layout: PTX ISA, "ldmatrix".
void load_fragments(uint32_t (&words)[4], uint32_t row);
void load_fragments_transposed(uint32_t (&words)[4], uint32_t row);

/// The fragments that the lanes of a warp exchange in a product: a[16, 16] by rows, b[16, 8] by
/// columns.
struct alignas(16) HostFragments {
  float a[16][16];
  float b[8][16];
};
/// The fragments of the calling lane's warp. Each lane writes its own part, waits with sync_warp(),
/// and then reads the parts of all lanes.
HostFragments& next_fragments();

/// The product of a row and a column of 16 elements, as four sums that the host computes in
/// parallel.
inline float multiply_row(const float* row, const float* column) {
  using Four [[gnu::vector_size(16)]] = float;
  Four sums = {};
  for (int k = 0; k < 16; k += 4) {
    Four left;
    Four right;
    __builtin_memcpy(&left, __builtin_assume_aligned(row + k, 16), sizeof(left));
    __builtin_memcpy(&right, __builtin_assume_aligned(column + k, 16), sizeof(right));
    sums += left * right;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Source of the layout: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
template <typename T>
void multiply_fragments(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (sizeof(T) == 2) {
    const int group = thread_index() % 32 / 4;
    const int pair = thread_index() % 4 * 2;
    const auto put_pair = [](float* to, uint32_t word) {
      to[0] = as_float(T{static_cast<uint16_t>(word)});
      to[1] = as_float(T{static_cast<uint16_t>(word >> 16)});
    };
    HostFragments& all = next_fragments();
    for (int i = 0; i < 4; ++i) put_pair(&all.a[group + i % 2 * 8][pair + i / 2 * 8], a[i]);
    for (int i = 0; i < 2; ++i) put_pair(&all.b[group][pair + i * 8], b[i]);
    sync_warp();
    for (int i = 0; i < 4; ++i) c[i] += multiply_row(all.a[group + i / 2 * 8], all.b[pair + i % 2]);
  }
}

/// Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k32" and "mma.m16n8k16".
void multiply_codes(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
inline void multiply_half_codes(int32_t (&c)[4], const uint32_t (&a)[2], uint32_t b) {
  multiply_codes(c, {a[0], a[1], 0, 0}, {b, 0});
}

}  // namespace reprise::kernels::cuda
