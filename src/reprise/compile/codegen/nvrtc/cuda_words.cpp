#include "reprise/compile/codegen/nvrtc/cuda_words.h"

#include "reprise/compile/codegen/block_words.h"

namespace reprise::compile {
namespace {

// Comes before block_words.inl, for NVRTC only: the types of standard headers, which NVRTC does not
// have.
constexpr std::string_view kBeforeWords = R"words(
#if defined(__CUDACC_RTC__)
typedef int int32_t;
typedef unsigned uint32_t;
typedef unsigned short uint16_t;
typedef long long int64_t;
#define REPRISE_DEVICE __device__ __forceinline__
#define REPRISE_ROW_KERNEL(name, shared_bytes, act)                                  \
  extern "C" __global__ void __launch_bounds__(256)                                  \
      name(const __grid_constant__ RowGroupArguments arguments) {                    \
    let_next_kernel_begin();                                                         \
    wait_for_earlier_kernels();                                                      \
    __shared__ __align__(16) char memory[shared_bytes];                              \
    act(arguments, memory);                                                          \
  }
struct BFloat16 { uint16_t bits; };
struct Float16 { uint16_t bits; };
)words";

// Comes after block_words.inl.
constexpr std::string_view kAfterWords = R"words(
REPRISE_DEVICE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
REPRISE_DEVICE int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
struct RowGroupOperand {
  void* data;
  int64_t rows;
  int64_t row_stride;
  int64_t inner_stride;
};
struct alignas(16) RowGroupArguments {
  int64_t rows;
  int64_t rows_per_block;
  RowGroupOperand operands[15];
};
#else
#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/row_group/row_group_arguments.h"
using namespace reprise;
using namespace reprise::kernels;
using namespace reprise::kernels::cuda;
#define REPRISE_ROW_KERNEL(name, shared_bytes, act) \
  extern "C" { extern const unsigned name##_shared_bytes = shared_bytes; } \
  extern "C" void name(const void* raw) {           \
    wait_for_earlier_kernels();                     \
    act(*static_cast<const RowGroupArguments*>(raw), shared_memory()); \
  }
#endif

// Eight warps leave a float each at the start of the shared memory.
constexpr int kPartBytes = 64;

REPRISE_DEVICE float block_sum(float value, char* memory) {
  value = warp_sum(value);
  float* parts = reinterpret_cast<float*>(memory);
  if (lane_index() == 0) parts[warp_index()] = value;
  sync_block();
  float total = 0;
  for (int warp = 0; warp < num_warps(); ++warp) total += parts[warp];
  sync_block();
  return total;
}

// The threads that compute a row.
struct RowTeam {
  int rank;
  int size;
  char* memory;  // its own
  char* parts;   // the block's

  REPRISE_DEVICE bool is_block() const { return size != kWarpSize; }
  REPRISE_DEVICE void sync() const {
    if (is_block()) {
      sync_block();
    } else {
      sync_warp();
    }
  }
};

template <typename Element>
REPRISE_DEVICE float sum_squares(int rank, int size, int64_t width, const Element& element) {
  float squares = 0;
  for (int64_t column = int64_t(rank) * kColumns; column < width; column += int64_t(size) * kColumns) {
    for (int i = 0; i < kColumns && column + i < width; ++i) {
      const float value = element(column + i);
      squares = multiply_add(value, value, squares);
    }
  }
  return squares;
}

// The scales of an rms_norm over each of `heads` heads, in the order of sums that the op has alone.
template <typename Element>
REPRISE_DEVICE void norm_scales(
    const RowTeam& team, int64_t heads, int64_t width, float epsilon, float* scales, const Element& element) {
  if (width > kWidestWarpRow) {
    for (int64_t head = 0; head < heads; ++head) {
      const float squares = block_sum(
          sum_squares(team.rank, team.size, width, [&](int64_t i) { return element(head, i); }), team.parts);
      if (team.rank == 0) scales[head] = 1.0F / square_root(squares / static_cast<float>(width) + epsilon);
    }
  } else {
    const int first = team.is_block() ? warp_index() : 0;
    const int step = team.is_block() ? num_warps() : 1;
    for (int64_t head = first; head < heads; head += step) {
      const float squares = warp_sum(
          sum_squares(lane_index(), kWarpSize, width, [&](int64_t i) { return element(head, i); }));
      if (lane_index() == 0) scales[head] = 1.0F / square_root(squares / static_cast<float>(width) + epsilon);
    }
  }
  team.sync();
}

// Calls act(row, team) for each row of the block.
template <typename Act>
REPRISE_DEVICE void for_each_group_row(
    const RowGroupArguments& a, char* memory, bool by_warps, int team_bytes, const Act& act) {
  const int64_t begin = block_index() * a.rows_per_block;
  const int64_t end = min_of(begin + a.rows_per_block, a.rows);
  char* own = memory + kPartBytes;
  if (by_warps) {
    for (int64_t row = begin + warp_index(); row < end; row += num_warps()) {
      act(row, RowTeam{lane_index(), kWarpSize, own + warp_index() * team_bytes, memory});
      sync_warp();
    }
  } else {
    for (int64_t row = begin; row < end; ++row) {
      act(row, RowTeam{thread_index(), num_threads(), own, memory});
      sync_block();
    }
  }
}

REPRISE_DEVICE float silu(float x) { return x / (1.0F + exponential(-x)); }
template <typename T>
REPRISE_DEVICE float element(const RowGroupOperand& operand, int64_t offset) {
  return as_float(static_cast<const T*>(operand.data)[offset]);
}
REPRISE_DEVICE int64_t index_of(const RowGroupOperand& indices, int64_t row) {
  return static_cast<const int32_t*>(indices.data)[row];
}
)words";

}  // namespace

std::string cuda_words() {
  std::string words(kBeforeWords);
  words += kBlockWordsInl;
  words += kAfterWords;
  return words;
}

}  // namespace reprise::compile
