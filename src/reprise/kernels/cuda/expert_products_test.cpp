#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/launch.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

// Products of experts on a GPU: rows of the same expert share its weights.
namespace reprise::kernels::cuda {
namespace {

class CudaExperts : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }

  Tensor in_blocks(PanelFormat format, int64_t columns, int64_t depth) {
    const std::array parts = {PanelPart{.format = format, .columns = columns}};
    Tensor weight = own(packed_weight_type(parts, depth, dtype()));
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor of_floats(PanelFormat codec, int64_t columns, int64_t depth) {
    Tensor weight = own(float_panels_type(codec, columns, depth, dtype()));
    fill_float_panels(weight, random_);
    return weight;
  }
  void expect_product(const Tensor& x,
                      const Tensor& experts,
                      const Tensor& bias,
                      const Tensor& choice,
                      double noise) {
    const Tensor want = make({choice.num_elements(), experts.size(1)}, DType::f32);
    expert_linear_ref(x, experts, bias, choice, want);
    expect_close(run(OpCode::expert_linear, {x, experts, bias, choice}), want, noise);
  }
  static void expect_same_rows(const Tensor& some, const Tensor& all, int64_t first) {
    const size_t row_bytes = static_cast<size_t>(all.size(1)) * dtype_bytes(all.dtype());
    EXPECT_EQ(std::memcmp(some.data(),
                          all.data_as<std::byte>() + static_cast<size_t>(first) * row_bytes,
                          static_cast<size_t>(some.size(0)) * row_bytes),
              0)
        << some.size(0) << " rows from row " << first;
  }

 private:
};

struct Tokens {
  int64_t tokens;
  int64_t top_k;
};
// Alone; few; as many rows as tiles of eight take; tiles of sixteen and of 64.
constexpr std::array kBatches = {
    Tokens{1, 3}, Tokens{2, 2}, Tokens{5, 2}, Tokens{33, 2}, Tokens{70, 2}};

TEST_P(CudaExperts, multiply_rows_like_the_oracle) {
  for (const auto& [tokens, top_k] : kBatches) {
    for (const int64_t columns : {16, 40, 96}) {  // 40: the last panel of an expert is short
      for (const int64_t depth : {8, 72, 640}) {
        if (depth == 640 && columns == 96) continue;
        SCOPED_TRACE(testing::Message() << tokens << " x " << columns << " x " << depth);
        const Tensor experts = random({4, columns, depth});
        const Tensor choice = choose(tokens, top_k, 4, columns == 40);
        const Tensor bias = columns == 16 ? Tensor{} : random({4, columns});
        for (const int64_t rows : {tokens, tokens * top_k}) {
          expect_product(random({rows, depth}), experts, bias, choice, 2e-5 * std::sqrt(depth));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(CudaExperts, multiply_like_the_oracle_with_weights_in_blocks) {
  for (const PanelFormat format : all_panel_formats()) {
    const int64_t depth = 256 + panel_group_elements(format);
    const Tensor experts = as_experts(in_blocks(format, int64_t{3} * 48, depth), 3);
    for (const auto& [tokens, top_k] : kBatches) {
      if (top_k > 2 && format != PanelFormat::q4_k) continue;
      const Tensor choice = choose(tokens, top_k, 3, true);
      const Tensor x = quantized(random({tokens, depth}));
      expect_product(x, experts, random({3, 48}), choice, 4e-5 * static_cast<double>(depth) / 32);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaExperts, multiply_like_the_oracle_with_smaller_floats) {
  for (const PanelFormat codec : {PanelFormat::f8e4m3_rows,
                                  PanelFormat::f8e4m3_g128,
                                  PanelFormat::f8e5m2_g128,
                                  PanelFormat::f4_g64}) {
    const Tensor experts = as_experts(of_floats(codec, int64_t{3} * 32, 384), 3);
    for (const auto& [tokens, top_k] : kBatches) {
      const Tensor choice = choose(tokens, top_k, 3, true);
      const double noise = 1e-5 * std::sqrt(384.0);
      expect_product(random({tokens, 384}), experts, random({3, 32}), choice, noise);
      // Rows in any place.
      const Tensor whole = random({tokens * top_k, 385});
      const Tensor x = whole.with_layout({tokens * top_k, 384}, {385, 1}, 1);
      expect_product(x, experts, {}, choice, noise);
      if (HasFatalFailure()) return;
    }
  }
}

// All rows choose one expert, or no row chooses any.
TEST_P(CudaExperts, take_every_division_of_the_rows) {
  for (const int32_t expert : {3, -1}) {
    for (const int64_t rows : {80, 200}) {
      const Tensor choice =
          ints({rows, 1}, std::vector<int32_t>(static_cast<size_t>(rows), expert));
      expect_product(random({rows, 64}), random({4, 40, 64}), random({4, 40}), choice, 1e-4);
    }
  }
  // More experts than threads.
  std::vector<int32_t> chosen(700);
  std::iota(chosen.begin(), chosen.end(), 0);
  std::shuffle(chosen.begin(), chosen.end(), random_);
  expect_product(random({350, 8}), random({700, 16, 8}), {}, ints({350, 2}, chosen), 1e-4);
}

// A block has eight panels and 64 rows. The last block of an expert has fewer, and its last panel
// is short.
TEST_P(CudaExperts, share_weights_among_many_rows) {
  for (const int64_t columns : {128, 200}) {
    for (const int64_t depth : {32, 544, 1032}) {  // fewer chunks than parts, and more
      const Tensor choice = choose(90, 2, 3, columns == 200);
      expect_product(random({90, depth}),
                     random({3, columns, depth}),
                     random({3, columns}),
                     choice,
                     2e-5 * std::sqrt(depth));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaExperts, give_a_row_the_same_bits_whatever_other_tokens_choose) {
  const Tensor choice = choose(60, 3, 4, false);
  const Tensor x = random({60, 640});
  struct Case {
    Tensor x;
    Tensor experts;
  };
  const std::vector<Case> cases = {
      {x, random({4, 40, 640})},
      {quantized(x), as_experts(in_blocks(PanelFormat::int4_g128, int64_t{4} * 48, 640), 4)},
      {x, as_experts(of_floats(PanelFormat::f8e4m3_g128, int64_t{4} * 160, 640), 4)},
      {x, as_experts(of_floats(PanelFormat::f8e4m3_rows, int64_t{4} * 32, 640), 4)},
      {x, as_experts(of_floats(PanelFormat::f4_g64, int64_t{4} * 32, 640), 4)}};
  for (const auto& [rows, experts] : cases) {
    const Tensor all = run(OpCode::expert_linear, {rows, experts, {}, choice});
    for (const auto& [first, count] :
         {std::pair<int64_t, int64_t>{0, 1}, {7, 2}, {59, 1}, {10, 11}, {3, 40}}) {
      const int64_t width = rows.size(1);
      const Tensor some = rows.with_layout({count, width}, {width, 1}, first * width);
      const Tensor chosen = choice.with_layout({count, 3}, {3, 1}, first * 3);
      expect_same_rows(run(OpCode::expert_linear, {some, experts, {}, chosen}), all, first * 3);
    }
  }
}

TEST_P(CudaExperts, have_the_same_bits_in_every_order_of_threads) {
  const Tensor choice = choose(20, 2, 3, true);
  const Tensor x = random({20, 128});
  const Tensor experts = random({3, 40, 128});
  const Tensor want = run(OpCode::expert_linear, {x, experts, {}, choice});
  for (uint64_t number = 1; number <= 6; ++number) {
    const HostOrder order(number);
    expect_same_rows(run(OpCode::expert_linear, {x, experts, {}, choice}), want, 0);
  }
}

// The tiles themselves: each row is in one tile of its expert, and no expert has more tiles than it
// needs, so its weights are read once for each tile_rows rows.
TEST_P(CudaExperts, tiles_hold_each_row_once_and_are_full) {
  for (const int32_t tile_rows : {8, 16, 64}) {
    for (const int64_t rows : {2, 63, 1000}) {
      const int num_experts = 37;
      std::vector<int32_t> chosen;
      for (int64_t i = 0; i < rows; ++i) chosen.push_back(static_cast<int>(random_() % 38) - 1);
      const Tensor experts = ints({rows, 1}, chosen);
      const int64_t most = most_expert_tiles(rows, num_experts, tile_rows);
      const Tensor order = make({rows}, DType::i32);
      const Tensor tiles = make({most, 4}, DType::i32);
      const Tensor num_tiles = make({1}, DType::i32);
      const GroupRowsArguments arguments = {.experts = experts.data_as<int32_t>(),
                                            .order = order.data_as<int32_t>(),
                                            .tiles = tiles.data_as<ExpertTile>(),
                                            .num_tiles = num_tiles.data_as<int32_t>(),
                                            .rows = static_cast<int32_t>(rows),
                                            .num_experts = num_experts,
                                            .tile_rows = tile_rows};
      launch(*stream_,
             group_rows_kernel(),
             1,
             arguments,
             std::array{writes(order), writes(tiles), writes(num_tiles), reads(experts)});
      stream_->synchronize();
      std::set<int32_t> seen;
      std::vector<int> tiles_of(num_experts + 1);
      ASSERT_LE(num_tiles.data_as<int32_t>()[0], most);
      for (int32_t t = 0; t < num_tiles.data_as<int32_t>()[0]; ++t) {
        const ExpertTile tile = tiles.data_as<ExpertTile>()[t];
        ASSERT_TRUE(tile.count > 0 && tile.count <= tile_rows);
        ASSERT_TRUE(tile.first >= 0 && tile.first + tile.count <= rows);
        ASSERT_TRUE(tile.expert >= -1 && tile.expert < num_experts);
        const int slot = tile.expert + 1;
        ++tiles_of[static_cast<size_t>(slot)];
        for (int32_t i = tile.first; i < tile.first + tile.count; ++i) {
          const int32_t row = order.data_as<int32_t>()[i];
          ASSERT_TRUE(row >= 0 && row < rows) << "place " << i << " has no row";
          EXPECT_EQ(chosen[static_cast<size_t>(row)], tile.expert);
          EXPECT_TRUE(seen.insert(row).second) << "row " << row << " is in two tiles";
        }
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(rows));
      for (int slot = 0; slot <= num_experts; ++slot) {
        const auto count = std::ranges::count(chosen, slot - 1);
        EXPECT_EQ(tiles_of[static_cast<size_t>(slot)], (count + tile_rows - 1) / tile_rows);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes,
                         CudaExperts,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
