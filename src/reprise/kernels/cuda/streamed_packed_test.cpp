#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/fake_cuda/streamed_weights_fixture.h"

// Products with packed weights that arrive by bulk copies have the bits of the usual kernels, which
// other tests compare with the CPU's: in every codec, whatever follows the product, for every
// number of rows, and at every edge of depth and columns.
namespace reprise::kernels::cuda {
namespace {

constexpr std::array kFloatCodecs = {PanelFormat::f8e4m3_rows,
                                     PanelFormat::f8e4m3_g128,
                                     PanelFormat::f8e5m2_rows,
                                     PanelFormat::f8e5m2_g128,
                                     PanelFormat::f4_g64};

class StreamedPacked : public StreamedWeights {
 protected:
  /// Codes of all values.
  Tensor codes(int64_t rows, int64_t depth) {
    const Tensor x = make({rows, depth}, DType::i8);
    for (int64_t i = 0; i < rows * depth; ++i) {
      x.data_as<int8_t>()[i] = static_cast<int8_t>(random_());
    }
    return x;
  }
  Tensor scales(int64_t count) {
    const Tensor scale = make({count}, DType::f32);
    fill(scale, 0.01);
    return scale;
  }
  /// The rows of a weight, in the form that it asks for, and their scales.
  std::pair<Tensor, Tensor> rows_for(const Tensor& weight, int64_t rows) {
    const int64_t depth = weight.size(1);
    if (weight.layout().family == WeightFamily::int8_panels) {
      return {codes(rows, depth), scales(rows)};
    }
    const Tensor x = random({rows, depth});
    const bool is_in_blocks = weight.layout().family == WeightFamily::block_panels;
    return {is_in_blocks ? quantized(x) : x, Tensor()};
  }

  void expect_usual_bits(OpCode code,
                         const std::vector<Tensor>& inputs,
                         const OpAttributes& attributes = {}) {
    const Bytes want = bytes_by({.kernel = Kernel::own}, code, inputs, attributes, {});
    EXPECT_EQ(bytes_by({.kernel = Kernel::streamed}, code, inputs, attributes, {}), want)
        << op_name(code) << " with " << inputs[1].type().to_string();
  }
  /// Every op that fits the weight, with and without what may be left out. `has_gates`: gates and
  /// ups are parts of their own, or whole panels.
  void expect_all_ops(const Tensor& weight, int64_t rows, bool has_gates) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << weight.type().to_string());
    const int64_t columns = weight.size(0);
    const auto [x, scale] = rows_for(weight, rows);
    const Tensor bias = rows % 2 == 1 ? random({columns}) : Tensor();
    expect_usual_bits(OpCode::linear, {x, weight, bias, scale});
    expect_usual_bits(OpCode::linear_add, {x, weight, bias, random({rows, columns}), scale});
    expect_usual_bits(OpCode::lm_head, {x, weight, ints({1}, {static_cast<int32_t>(rows)}), scale});
    if (!has_gates) return;
    expect_usual_bits(OpCode::linear_silu_and_mul, {x, weight, bias, scale});
    if (columns % 64 == 0 && weight.layout().family == WeightFamily::block_panels) {
      OpAttributes attributes;
      attributes.type.dtype = DType::i8;
      expect_usual_bits(OpCode::linear_silu_and_mul_quantize_blocks, {x, weight, bias}, attributes);
    }
  }
  void expect_all_ops(const Tensor& weight, int64_t rows) {
    expect_all_ops(weight, rows, weight.size(0) % (2 * kPanelColumns) == 0);
  }
};

TEST_P(StreamedPacked, have_the_bits_of_the_usual_kernels_in_every_codec) {
  for (const PanelFormat format : all_panel_formats()) {
    // More chunks of the depth than a slot has, and a last slot that is not full.
    const int64_t depth = 2048 + 2 * panel_group_elements(format);
    const Tensor weight = blocks(format, 64, depth);
    for (const int64_t rows : {1, 2, 8}) expect_all_ops(weight, rows);
    if (HasFailure()) return;
  }
  for (const PanelFormat codec : kFloatCodecs) {
    const Tensor weight = floats(codec, 96, 1024 + 128);
    for (const int64_t rows : {1, 3, 8}) expect_all_ops(weight, rows);
  }
  for (const int64_t rows : {1, 2, 5, 8}) expect_all_ops(int8s(96, 2112), rows);
  const Tensor weight = int8s(96, 2112);
  expect_usual_bits(OpCode::linear, {codes(4, 2112), weight, {}, scales(1)});  // of a checkpoint
}

TEST_P(StreamedPacked, have_the_bits_of_the_usual_kernels_at_every_edge) {
  for (const int64_t depth : {64, 128, 192, 960, 1024, 1088}) {
    for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_1, PanelFormat::int4_g32}) {
      expect_all_ops(blocks(format, 18, depth), 3);
    }
    expect_all_ops(int8s(32, depth), 1);
    expect_all_ops(floats(PanelFormat::f4_g64, 32, depth), 1);
    expect_all_ops(floats(PanelFormat::f8e4m3_rows, 32, depth - 32), 2);
    if (HasFailure()) return;
  }
  for (const int64_t columns : {1, 15, 16, 17, 31, 33, 80, 400}) {
    expect_all_ops(blocks(PanelFormat::int4_g128, columns, 256), 1);
  }
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8}) {
    expect_all_ops(blocks(PanelFormat::q4_k, 34, 1280), rows);
    expect_all_ops(floats(PanelFormat::f8e4m3_g128, 64, 640), rows);
  }
}

// A slot has room for the largest panels, and each panel takes the part that it needs.
TEST_P(StreamedPacked, multiply_parts_in_different_codecs) {
  const Tensor weight = blocks({{.format = PanelFormat::q4_k, .columns = 33},
                                {.format = PanelFormat::q8_0, .columns = 16},
                                {.format = PanelFormat::q6_k, .columns = 7},
                                {.format = PanelFormat::int4_g128, .columns = 120}},
                               2560);
  for (const int64_t rows : {1, 4, 8}) expect_all_ops(weight, rows);
  for (const int64_t columns : {8, 24, 64}) {  // gates and ups that end within a panel
    const Tensor gated = blocks({{.format = PanelFormat::q5_0, .columns = columns},
                                 {.format = PanelFormat::q8_0, .columns = columns}},
                                320);
    for (const int64_t rows : {1, 3}) expect_all_ops(gated, rows, true);
  }
}

TEST_P(StreamedPacked, compute_only_the_rows_that_are_wanted_when_they_run) {
  const std::vector<Tensor> weights = {blocks(PanelFormat::int4_g128, 50, 1152),
                                       floats(PanelFormat::f8e4m3_rows, 64, 576),
                                       int8s(64, 1152)};
  for (const Tensor& weight : weights) {
    for (const int32_t wanted : {0, 1, 3, 8, 40}) {
      const auto [x, scale] = rows_for(weight, 8);
      // Rows that are not wanted may hold anything.
      const size_t row_bytes = x.type().bytes() / 8;
      for (int64_t row = wanted; row < 8; ++row) {
        std::memset(x.data_as<std::byte>() + static_cast<size_t>(row) * row_bytes, 0xFF, row_bytes);
      }
      const auto rows_by = [&](Kernel kernel) {
        const std::vector<Tensor> inputs{x, weight, ints({1}, {wanted}), scale};
        Bytes bytes = bytes_by({.kernel = kernel}, OpCode::lm_head, inputs, {}, {});
        bytes.resize(static_cast<size_t>(std::min(wanted, 8)) *
                     static_cast<size_t>(weight.size(0)) * 4);
        return bytes;
      };
      EXPECT_EQ(rows_by(Kernel::streamed), rows_by(Kernel::own)) << wanted;
    }
  }
}

TEST_P(StreamedPacked, leave_rows_that_no_bulk_copy_can_bring_to_the_usual_kernels) {
  const auto functions_of = [&](const Tensor& x, const Tensor& weight) {
    functions_.clear();
    const ProductChoice choice{.kernel = Kernel::streamed};
    const ForcedChoice forced(executor_.choices(), choice);
    (void)run(OpCode::linear, {x, weight, {}});
    return functions_;
  };
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver tells which kernels ran";
  // With an odd number of blocks, the bytes of a row are not a multiple of 16.
  const Tensor odd = quantized(random({2, 96}));
  EXPECT_EQ(functions_of(odd, blocks(PanelFormat::q8_0, 32, 96)),
            std::set<std::string>{"reprise_packed_linear_8"});
  // Rows 266 bytes apart.
  const Tensor x = random({4, 133}).with_layout({4, 128}, {133, 1}, 0);
  for (const std::string& function : functions_of(x, floats(PanelFormat::f8e4m3_rows, 32, 128))) {
    EXPECT_EQ(function.find("_streamed_"), std::string::npos) << function;
  }
  EXPECT_EQ(functions_of(quantized(random({9, 128})), blocks(PanelFormat::q8_0, 32, 128)),
            std::set<std::string>{"reprise_packed_linear_16"});
}

TEST_P(StreamedPacked, have_one_block_for_each_multiprocessor) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver tells the size of a launch";
  for (const auto& [columns, blocks_of] : {std::pair{400, 4U}, {40, 3U}, {8, 1U}}) {
    const Tensor weight = blocks({{.format = PanelFormat::int4_g128, .columns = columns}}, 128);
    const Tensor x = quantized(random({1, 128}));
    most_blocks_ = 0;
    (void)bytes_by({.kernel = Kernel::streamed}, OpCode::linear, {x, weight, {}}, {}, {});
    // A weight may have up to eight parts, each with a panel that is not full.
    EXPECT_LE(most_blocks_, 4U);
    EXPECT_GE(most_blocks_, blocks_of);
  }
}

TEST_P(StreamedPacked, have_the_same_bits_in_every_order_of_threads_and_copies) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU chooses its order itself";
  const std::vector<Tensor> weights = {blocks(PanelFormat::int4_g128, 544, 1664),
                                       floats(PanelFormat::f4_g64, 544, 832),
                                       int8s(544, 1664)};
  for (const Tensor& weight : weights) {
    const auto [x, scale] = rows_for(weight, 3);
    const auto [one, one_scale] = rows_for(weight, 1);
    const auto results = [&](Kernel kernel, uint64_t number) {
      const HostOrder order(number);
      const ProductChoice choice{.kernel = kernel};
      return std::array{
          bytes_by(choice, OpCode::linear, {one, weight, {}, one_scale}, {}, {}),
          bytes_by(choice, OpCode::linear_silu_and_mul, {x, weight, {}, scale}, {}, {})};
    };
    const auto want = results(Kernel::own, 0);
    for (uint64_t number = 0; number <= 6; ++number) {
      EXPECT_EQ(results(Kernel::streamed, number), want) << "order " << number;
    }
  }
}

TEST_P(StreamedPacked, copy_nothing_behind_the_ends_of_weights_and_rows) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not reach this memory";
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  const auto guarded = [&](const Tensor& tensor) {
    const size_t bytes = tensor.type().bytes();
    memory.push_back(std::make_unique<GuardedMemory>(bytes));
    std::memcpy(memory.back()->data(), tensor.data(), bytes);
    return Tensor::borrow(tensor.type(), memory.back()->data(), executor_);
  };
  const std::vector<Tensor> weights = {blocks(PanelFormat::int4_g128, 32, 1152),
                                       blocks(PanelFormat::q8_0, 32, 1088),
                                       blocks(PanelFormat::q6_k, 32, 1280),
                                       floats(PanelFormat::f8e5m2_rows, 32, 544),
                                       floats(PanelFormat::f8e4m3_g128, 32, 640),
                                       floats(PanelFormat::f4_g64, 32, 576),
                                       int8s(32, 1152)};
  for (const Tensor& weight : weights) {
    const auto [x, scale] = rows_for(weight, 3);
    const Tensor far = guarded(weight);
    expect_usual_bits(OpCode::linear, {guarded(x), far, {}, scale});
    expect_usual_bits(OpCode::linear_silu_and_mul, {guarded(x), far, {}, scale});
  }
}

TEST_P(StreamedPacked, read_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  const ProductChoice streamed{.kernel = Kernel::streamed};
  const ForcedChoice forced(executor_.choices(), streamed);
  const std::vector<Tensor> weights = {blocks(PanelFormat::int4_g128, 128, 1152),
                                       floats(PanelFormat::f8e4m3_g128, 128, 640),
                                       int8s(128, 1152)};
  for (const Tensor& weight : weights) {
    for (const int64_t rows : {1, 8}) {
      const auto [x, scale] = rows_for(weight, rows);
      const Tensor residual = random({rows, 128});
      const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
      const std::vector<std::pair<OpCode, std::vector<Tensor>>> calls = {
          {OpCode::linear_add, {x, weight, random({128}), residual, scale}},
          {OpCode::linear_silu_and_mul, {x, weight, {}, scale, {}}},
          {OpCode::lm_head, {x, weight, wanted, scale, {}}}};
      for (const auto& [code, inputs] : calls) {
        std::vector<Tensor> written{x, residual, wanted};
        if (scale.defined()) written.push_back(scale);
        expect_same_bits_behind_kernels(code, inputs, {}, written);
      }
    }
  }
}

/// Qwen2.5-7B and Llama-3.1-8B: some columns of their matrices.
TEST_P(StreamedPacked, have_the_bits_of_the_usual_kernels_at_real_depths) {
  for (const int64_t depth : {3584, 18944, 4096, 14336}) {
    for (const int64_t rows : {1, 8}) {
      expect_all_ops(blocks(PanelFormat::int4_g128, 160, depth), rows);
      if (depth == 4096) expect_all_ops(floats(PanelFormat::f8e4m3_rows, 160, depth), rows);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         StreamedPacked,
                         testing::Values(DType::bf16, DType::f16),
                         StreamedOps::name_of);

}  // namespace
}  // namespace reprise::kernels::cuda
