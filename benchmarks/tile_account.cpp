// Counts the tile instructions of the AMX kernels, on any machine: the kernels run on tiles in
// software that count. A model turns the counts into cycles of a processor with AMX; its constants
// were measured there (docs/adr/0036). Another model says how many bytes the tiles bring from the
// second cache level (counted_tiles.inl). The counts are exact, the rest is a model, and neither is
// a measurement. The program fails if the share of products in the cycles falls below what it was
// when this was written, or if the bytes become more.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "reprise/kernels/isa/headers.inl"

namespace reprise::kernels {
namespace {

#define REPRISE_ISA_HAS_TILES
#define REPRISE_ISA amx_counted
// clang-format off: later files use earlier ones.
#include "reprise/kernels/vector/portable.inl"
#include "reprise/kernels/vector/panel_portable.inl"
#include "reprise/kernels/vector/float_codes_portable.inl"
#include "reprise/kernels/vector/tile_shapes.inl"
#include "benchmarks/counted_tiles.inl"
#include "reprise/kernels/vector/tile_layouts_portable.inl"
#include "reprise/kernels/isa/kernels.inl"
// clang-format on

// Cycles of one instruction, everything in the first cache level.
constexpr double kProductCycles = 16;
constexpr double kLoadCycles = 8;
constexpr double kStoreCycles = 16;

/// Memory that begins with a cache line, as tensors do.
template <typename T>
struct LineAllocator {
  using value_type = T;
  T* allocate(size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* memory, size_t /*count*/) { ::operator delete(memory, std::align_val_t{64}); }
  friend bool operator==(LineAllocator, LineAllocator) { return true; }
};
using Numbers = std::vector<uint16_t, LineAllocator<uint16_t>>;

Numbers random_numbers(int64_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(static_cast<size_t>(count));
  for (uint16_t& number : numbers) {
    const float value = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    number = static_cast<uint16_t>(bits >> 16);
  }
  return numbers;
}

bool has_failed = false;

struct Limits {
  double least_share;  // of the products that no kernel could leave out, in the cycles of the model
  double most_bytes;   // from the second cache level for each cycle of these products
};

/// Prints counts for each `unit` of work, which needs `least` tile products at least.
void print(const char* name, double units, double least, const Limits& limits) {
  const double products = static_cast<double>(tile_counts.products) / units;
  const double loads = static_cast<double>(tile_counts.loads) / units;
  const double stores = static_cast<double>(tile_counts.stores) / units;
  const double cycles =
      std::max(products * kProductCycles, loads * kLoadCycles) + stores * kStoreCycles;
  const double share = least * kProductCycles / cycles;
  const double bytes =
      static_cast<double>(tile_counts.lines) * 64 / (units * least * kProductCycles);
  std::printf("%-48s %8.2f %8.2f %8.2f %8.0f %6.2f %6.1f\n",
              name,
              products,
              loads,
              stores,
              cycles,
              share,
              bytes);
  if (share < limits.least_share || bytes > limits.most_bytes) {
    std::printf("  expected a share of at least %.2f and at most %.1f bytes\n",
                limits.least_share,
                limits.most_bytes);
    has_failed = true;
  }
  tile_counts = {};
}

struct AttentionShape {
  int64_t kv_heads;
  int64_t group_size;
  int64_t head_dim;
};

void count_attention(const AttentionShape& shape,
                     int64_t tokens,
                     int64_t context,
                     const Limits& limits) {
  constexpr int64_t kBlock = 16;
  const int64_t blocks = (context + kBlock - 1) / kBlock;
  const int64_t heads = shape.kv_heads * shape.group_size;
  const auto q = random_numbers(tokens * heads * shape.head_dim, 1);
  const auto keys = random_numbers(blocks * shape.kv_heads * kBlock * shape.head_dim, 2);
  const auto values = random_numbers(blocks * shape.kv_heads * kBlock * shape.head_dim, 3);
  Numbers out(q.size());
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  for (int64_t i = 0; i < blocks; ++i) table[static_cast<size_t>(i)] = static_cast<int32_t>(i);
  const int32_t starts[] = {0, static_cast<int32_t>(tokens)};
  const int32_t lens[] = {static_cast<int32_t>(context)};
  AttentionKernelArguments a = {};
  a.q = q.data();
  a.key_cache = keys.data();
  a.value_cache = values.data();
  a.out = out.data();
  a.query_start_loc = starts;
  a.seq_lens = lens;
  a.block_table = table.data();
  a.q_token_stride = a.out_token_stride = heads * shape.head_dim;
  a.q_head_stride = a.out_head_stride = shape.head_dim;
  a.block_table_stride = blocks;
  a.num_tokens = tokens;
  a.num_reqs = 1;
  a.block_stride = shape.kv_heads * kBlock * shape.head_dim;
  a.kv_head_stride = kBlock * shape.head_dim;
  a.kv_heads = shape.kv_heads;
  a.group_size = shape.group_size;
  a.head_dim = a.value_dim = shape.head_dim;
  a.block_size = kBlock;
  a.query_len = tokens;
  a.tokens_per_block = tokens;
  a.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  run_uniform_attention<BFloat16>(&a, {0, static_cast<uint32_t>(shape.kv_heads)});
  const double pairs = static_cast<double>(tokens) *
                       (static_cast<double>(context) - (static_cast<double>(tokens) - 1) / 2) *
                       static_cast<double>(heads);
  char name[96];
  std::snprintf(name,
                sizeof name,
                "attention %lld/%lld x %lld, %lld of %lld tokens",
                static_cast<long long>(heads),
                static_cast<long long>(shape.kv_heads),
                static_cast<long long>(shape.head_dim),
                static_cast<long long>(tokens),
                static_cast<long long>(context));
  print(name, pairs / 256, static_cast<double>(shape.head_dim) * 2 / 32, limits);
}

template <typename T, typename Out>
void count_product(
    const char* type, int64_t rows, int64_t columns, int64_t depth, const Limits& limits) {
  const auto x = random_numbers(rows * depth, 1);
  const auto weight = random_numbers(columns * (depth + 64), 2);
  std::vector<float> out(static_cast<size_t>(rows * columns));
  const std::vector<float> scales(static_cast<size_t>(std::max(rows, columns)), 1.0F);
  LinearArguments a = {};
  a.x = x.data();
  a.weight = weight.data();
  a.out = out.data();
  a.x_stride = depth;
  a.rows = rows;
  a.columns = columns;
  a.depth = depth;
  a.rows_per_block = kMaxLinearTileRows;
  a.columns_per_block = kMaxLinearTileColumns;
  a.family = sizeof(T) == 1 ? WeightFamily::int8_panels : WeightFamily::column_panels;
  a.x_scale = scales.data();
  const int64_t blocks = ceil_div(rows, a.rows_per_block) * ceil_div(columns, a.columns_per_block);
  run_linear<T, Out, Out>(&a, {0, static_cast<uint32_t>(blocks)});
  char name[96];
  std::snprintf(name,
                sizeof name,
                "product in %s, %lld x %lld x %lld",
                type,
                static_cast<long long>(rows),
                static_cast<long long>(columns),
                static_cast<long long>(depth));
  const double units = static_cast<double>(rows * columns) / 256;
  const auto bytes = static_cast<double>(depth * static_cast<int64_t>(sizeof(T)));
  print(name, units, bytes / 64, limits);
}

void run() {
  std::printf(
      "Tile instructions for 16 rows and 16 positions of attention, or 16 rows and 16 columns of a "
      "product. Bytes come from the second cache level, for each cycle of the products that no "
      "kernel "
      "could leave out.\n%-48s %8s %8s %8s %8s %6s %6s\n",
      "",
      "products",
      "loads",
      "stores",
      "cycles",
      "share",
      "bytes");
  const AttentionShape small = {2, 7, 64};
  const AttentionShape large = {2, 4, 128};
  count_attention(small, 1, 512, {0.31, 140});
  count_attention(small, 36, 512, {0.67, 53});
  count_attention(small, 36, 4096, {0.70, 52});
  count_attention(large, 1, 512, {0.19, 380});
  count_attention(large, 32, 2048, {0.78, 63});
  count_product<BFloat16, BFloat16>("bfloat16", 16, 128, 896, {0.95, 106});
  count_product<BFloat16, BFloat16>("bfloat16", 32, 128, 896, {0.95, 70});
  count_product<BFloat16, BFloat16>("bfloat16", 64, 128, 896, {0.86, 51});
  count_product<BFloat16, BFloat16>("bfloat16", 256, 256, 896, {0.86, 40});
  count_product<BFloat16, BFloat16>("bfloat16", 256, 256, 2048, {0.86, 46});
  count_product<BFloat16, BFloat16>("bfloat16", 256, 256, 4864, {0.86, 38});
  count_product<int8_t, BFloat16>("int8", 256, 256, 896, {0.86, 43});
}

}  // namespace
}  // namespace reprise::kernels

int main() {
  reprise::kernels::run();
  return reprise::kernels::has_failed ? 1 : 0;
}
