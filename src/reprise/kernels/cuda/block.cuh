#pragma once

// The functions of a thread block that kernels use. nvcc compiles them, and the host's compiler
// does with a test's header, so that tests run the kernels' own source on the CPU.
#include <cstddef>
#include <cstdint>

#include "reprise/base/element.h"
#include "reprise/kernels/rows.h"

#if defined(__CUDACC__)
#define REPRISE_DEVICE __device__ __forceinline__
#define REPRISE_UNROLL _Pragma("unroll")
#define REPRISE_UNROLL_BY_2 _Pragma("unroll 2")
#define REPRISE_UNROLL_BY_4 _Pragma("unroll 4")
#else
#include <cmath>

#include REPRISE_HOST_BLOCK_HEADER  // threads and warps on the CPU, for tests
#define REPRISE_DEVICE inline
#define REPRISE_UNROLL
#define REPRISE_UNROLL_BY_2
#define REPRISE_UNROLL_BY_4
#endif

namespace reprise::kernels::cuda {

#include "reprise/kernels/cuda/block_words.inl"

#if defined(__CUDACC__)

REPRISE_DEVICE uint32_t grid_size() { return gridDim.x; }
REPRISE_DEVICE uint64_t shuffle_xor(uint64_t value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}
REPRISE_DEVICE int shuffle_from(int value, int lane) {
  return __shfl_sync(0xffffffffU, value, lane);
}
REPRISE_DEVICE bool warp_all(bool is) { return __all_sync(0xffffffffU, is) != 0; }
/// Dynamic shared memory, aligned to 256.
REPRISE_DEVICE char* shared_memory() {
  extern __shared__ __align__(256) int4 memory[];
  return reinterpret_cast<char*>(memory);
}
/// Hides from the compiler that the result equals `value`: results computed from it are computed
/// again instead of being kept in registers.
REPRISE_DEVICE int same_again(int value) {
  asm volatile("" : "+r"(value));
  return value;
}
/// The address in shared memory; it has the alignment of `place`, up to 256.
REPRISE_DEVICE uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}
/// Starts a copy of sixteen bytes to shared memory that bypasses the registers; copies zeros unless
/// `there`. The calling thread may read the bytes after a wait.
REPRISE_DEVICE void copy_words_async(void* shared, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}
/// Closes a group of copies.
REPRISE_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all groups of the calling thread except the last kPending have arrived.
template <int kPending>
REPRISE_DEVICE void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Bulk copies, and barriers that wait for their bytes. Only code for compute capability 9 and later
// has them.

/// A barrier in shared memory ("mbarrier"). Its phase ends when as many threads as begin() said
/// have arrived, and all bytes that they expect are there. The parities of the phases are 0, 1, 0,
/// and so on.
struct alignas(8) PhaseBarrier {
  uint64_t state;
  /// The first phase begins. Other threads may use the barrier after a barrier of the block.
  REPRISE_DEVICE void begin(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals)
                 : "memory");
  }
  REPRISE_DEVICE void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  /// One arrival for the whole warp, whose lanes all call this. The phase also waits for so many
  /// bytes of bulk copies, which start later.
  REPRISE_DEVICE void arrive_as_warp(int bytes) {
    asm volatile(
        "{ .reg .pred p; elect.sync _|p, 0xffffffff; @p mbarrier.arrive.expect_tx.shared::cta.b64 "
        "_, [%0], %1; }" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  /// Returns when the current phase, or the one before it, has this parity and has ended.
  REPRISE_DEVICE void wait(int parity) {
    uint32_t has_ended = 0;
    while (has_ended == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, "
          "0, p; }"
          : "=r"(has_ended)
          : "r"(shared_address(this)), "r"(parity)
          : "memory");
    }
  }
};
/// After begin() of all barriers, by the thread that called it: copies may use the barriers.
REPRISE_DEVICE void let_copies_see_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
/// Starts a copy to shared memory, whose bytes arrive at the barrier. Both places are aligned to
/// 16, and the size is a positive multiple of 16. All lanes of a warp call this with the same
/// arguments and start one copy: an instruction for a warp, not for a lane.
REPRISE_DEVICE void copy_bulk(void* shared, const void* from, int bytes, PhaseBarrier& barrier) {
  asm volatile(
      "{ .reg .pred p; elect.sync _|p, 0xffffffff; @p "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3]; }" ::
          "r"(shared_address(shared)),
      "l"(from),
      "r"(bytes),
      "r"(shared_address(&barrier))
      : "memory");
}
/// A barrier of the first kThreads threads of the block. No other number may be used in a kernel.
template <int kThreads>
REPRISE_DEVICE void sync_first_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
/// Makes all earlier writes of the calling thread visible to the whole GPU before its next
/// accesses.
REPRISE_DEVICE void fence() { __threadfence(); }
REPRISE_DEVICE int atomic_add(int32_t* value, int amount) { return atomicAdd(value, amount); }
REPRISE_DEVICE void atomic_add(uint64_t* value, uint64_t amount) {
  atomicAdd(reinterpret_cast<unsigned long long*>(value), static_cast<unsigned long long>(amount));
}
REPRISE_DEVICE float exponential_2(float x) { return exp2f(x); }
/// Accurate to about 2 units in the last place; results below the smallest normal number become 0.
REPRISE_DEVICE float fast_exponential_2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
REPRISE_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
REPRISE_DEVICE float error_function(float x) { return erff(x); }
REPRISE_DEVICE float hyperbolic_tangent(float x) { return tanhf(x); }
REPRISE_DEVICE float log_1p(float x) { return log1pf(x); }

struct alignas(16) Words4 {
  uint32_t word[4];
};
REPRISE_DEVICE Words4 load_words(const void* address) {
  const uint4 v = *static_cast<const uint4*>(address);
  return {{v.x, v.y, v.z, v.w}};
}
struct alignas(8) Words2 {
  uint32_t word[2];
};
REPRISE_DEVICE Words2 load_two_words(const void* address) {
  const uint2 v = *static_cast<const uint2*>(address);
  return {{v.x, v.y}};
}
REPRISE_DEVICE uint32_t load_word(const void* address) {
  return *static_cast<const uint32_t*>(address);
}
REPRISE_DEVICE uint32_t load_half_word(const void* address) {
  return *static_cast<const uint16_t*>(address);
}
REPRISE_DEVICE float load_fresh(const float* address) { return __ldcg(address); }
REPRISE_DEVICE int32_t load_fresh(const int32_t* address) { return __ldcg(address); }
REPRISE_DEVICE uint64_t load_fresh(const uint64_t* address) {
  return __ldcg(reinterpret_cast<const unsigned long long*>(address));
}
REPRISE_DEVICE Words4 load_fresh_words(const void* address) {
  const uint4 v = __ldcg(static_cast<const uint4*>(address));
  return {{v.x, v.y, v.z, v.w}};
}
REPRISE_DEVICE void store_words(void* address, const Words4& w) {
  *static_cast<uint4*>(address) = make_uint4(w.word[0], w.word[1], w.word[2], w.word[3]);
}
/// Starts a copy of eight bytes, like copy_words_async.
REPRISE_DEVICE void copy_pair_async(void* shared, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from),
               "r"(there ? 8 : 0)
               : "memory");
}
/// Selects bytes of two words by the digits of `selector`, the lowest digit first.
REPRISE_DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
/// Adds the four signed bytes of a word.
REPRISE_DEVICE int32_t add_codes(uint32_t word, int32_t sum) {
  return __dp4a(static_cast<int32_t>(word), 0x01010101, sum);
}

REPRISE_DEVICE float float_of(uint32_t bits) { return __uint_as_float(bits); }
REPRISE_DEVICE uint32_t bits_of(float x) { return __float_as_uint(x); }
/// Loads four matrices of 8 x 8 elements of 16 bits. Each lane passes the shared address of one row
/// of eight elements; lanes 0 to 7 pass those of the first matrix. From each matrix a lane gets two
/// neighbouring elements: columns 2 (lane % 4) and the next one of row lane / 4; transposed, rows 2
/// (lane % 4) and the next one of column lane / 4. See PTX ISA, "ldmatrix".
REPRISE_DEVICE void load_fragments(uint32_t (&words)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}
REPRISE_DEVICE void load_fragments_transposed(uint32_t (&words)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row)
               : "memory");
}

/// c += a b on the tensor cores: a[16, 16] by rows, b[16, 8] by columns, c[16, 8]. For the elements
/// of each lane see PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
template <typename T>
REPRISE_DEVICE void multiply_fragments(float (&c)[4],
                                       const uint32_t (&a)[4],
                                       const uint32_t (&b)[2]) {
  if constexpr (sizeof(T) == 2) {
    if constexpr (__is_same(T, BFloat16)) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
          "{%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
          "{%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
}

/// c += a b of signed bytes on the tensor cores: a[16, 32] by rows, b[32, 8] by columns, c[16, 8].
/// A lane has four neighbours along the depth in each word: those at 4 (lane % 4) and, in the later
/// words, sixteen further. For the rest see PTX ISA, "Matrix Fragments for mma.m16n8k32".
REPRISE_DEVICE void multiply_codes(int32_t (&c)[4],
                                   const uint32_t (&a)[4],
                                   const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// The same for half of the depth: a[16, 16] and b[16, 8].
REPRISE_DEVICE void multiply_half_codes(int32_t (&c)[4], const uint32_t (&a)[2], uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

#endif

template <typename T>
REPRISE_DEVICE uint32_t pack(float low, float high) {
#if defined(__CUDACC__)
  // One instruction converts both elements, with the same bits as put().
  uint32_t both;
  if constexpr (__is_same(T, BFloat16)) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
#else
  T pair[2];
  put(pair, low);
  put(pair + 1, high);
  return static_cast<uint32_t>(pair[0].bits) | (static_cast<uint32_t>(pair[1].bits) << 16);
#endif
}

/// The j-th element of type T in sixteen bytes.
template <typename T>
REPRISE_DEVICE float element_of(const Words4& words, int j) {
  if constexpr (sizeof(T) == 4) {
    return float_of(words.word[j]);
  } else {
    return as_float(T{static_cast<uint16_t>(words.word[j / 2] >> (j % 2 * 16))});
  }
}

/// Increases with x, and is the same for both zeros.
REPRISE_DEVICE uint32_t ordered_bits(float x) {
  const uint32_t bits = bits_of(x + 0.0F);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

REPRISE_DEVICE bool is_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

/// Loads up to kColumns elements; elements from `count` on are zeros.
template <typename T>
REPRISE_DEVICE void load_columns(const T* x, int64_t count, float (&values)[kColumns]) {
  if (count >= kColumns && is_aligned(x)) {
    constexpr int kPerLoad = 16 / sizeof(T);
    REPRISE_UNROLL
    for (int i = 0; i < kColumns; i += kPerLoad) {
      const Words4 words = load_words(x + i);
      REPRISE_UNROLL
      for (int j = 0; j < kPerLoad; ++j) values[i + j] = element_of<T>(words, j);
    }
    return;
  }
  for (int i = 0; i < kColumns; ++i) values[i] = i < count ? as_float(x[i]) : 0.0F;
}

template <typename T>
REPRISE_DEVICE void store_columns(T* out, int64_t count, const float (&values)[kColumns]) {
  if (count >= kColumns && is_aligned(out)) {
    constexpr int kPerStore = 16 / sizeof(T);
    REPRISE_UNROLL
    for (int i = 0; i < kColumns; i += kPerStore) {
      Words4 words;
      REPRISE_UNROLL
      for (int j = 0; j < 4; ++j) {
        if constexpr (sizeof(T) == 4) {
          words.word[j] = bits_of(values[i + j]);
        } else {
          words.word[j] = pack<T>(values[i + 2 * j], values[i + 2 * j + 1]);
        }
      }
      store_words(out + i, words);
    }
    return;
  }
  for (int i = 0; i < kColumns && i < count; ++i) put(out + i, values[i]);
}

/// The threads that work on one row: a warp, or the block. The choice and so the order of the sums
/// depend only on the row's width.
struct Team {
  int rank;
  int size;

  REPRISE_DEVICE float sum(float value) const {
    value = warp_sum(value);
    if (size == kWarpSize) return value;
    auto* parts = reinterpret_cast<float*>(shared_memory());
    if (lane_index() == 0) parts[warp_index()] = value;
    sync_block();
    float total = 0;
    for (int warp = 0; warp < num_warps(); ++warp) total += parts[warp];
    sync_block();
    return total;
  }
};

/// Calls act(row, team) for each row of the tile, by every thread of the row's team.
template <typename Act>
REPRISE_DEVICE void for_each_row(const RowTile& tile, int64_t width, const Act& act) {
  if (width <= kWidestWarpRow) {
    for (int64_t row = tile.row_begin + warp_index(); row < tile.row_end; row += num_warps()) {
      act(row, Team{lane_index(), kWarpSize});
    }
  } else {
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      act(row, Team{thread_index(), num_threads()});
    }
  }
}

/// Calls act(column, count) for each piece of [begin, end) that belongs to this thread of the team.
/// `count` is the number of columns from `column` to `end`.
template <typename Act>
REPRISE_DEVICE void for_each_columns(const Team& team, int64_t begin, int64_t end, const Act& act) {
  for (int64_t column = begin + int64_t{team.rank} * kColumns; column < end;
       column += int64_t{team.size} * kColumns) {
    act(column, end - column);
  }
}

}  // namespace reprise::kernels::cuda
