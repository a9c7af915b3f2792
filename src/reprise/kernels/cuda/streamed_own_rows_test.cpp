#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/fake_cuda/streamed_weights_fixture.h"

// Products that norm and quantise their rows themselves have the bits of the ops that do so before
// them: in every codec, whatever follows the product, for every number of rows and at every edge of
// the depth. Where no kernel can do it, they take the launches of these ops.
namespace reprise::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-5F;

struct OwnRowsCase {
  OpCode code;
  bool has_norm = false;
};

class StreamedOwnRows : public StreamedWeights {
 protected:
  /// The operands of a call after x and the weight, without its norm, and the caches that it
  /// writes.
  struct Rest {
    std::vector<Tensor> operands;
    std::vector<Tensor> caches;
    int64_t heads = 0;
  };
  int64_t head_dim_ = 32;
  static constexpr std::array kCases = {OwnRowsCase{OpCode::linear},
                                        OwnRowsCase{OpCode::linear_add},
                                        OwnRowsCase{OpCode::linear_silu_and_mul},
                                        OwnRowsCase{OpCode::linear_silu_and_mul, true},
                                        OwnRowsCase{OpCode::lm_head},
                                        OwnRowsCase{OpCode::lm_head, true},
                                        OwnRowsCase{OpCode::linear_rope_kv_write},
                                        OwnRowsCase{OpCode::linear_rope_kv_write, true}};

  static bool is_float(const Tensor& weight) {
    return weight.layout().family == WeightFamily::float_panels;
  }
  static bool is_int8(const Tensor& weight) {
    return weight.layout().family == WeightFamily::int8_panels;
  }
  [[nodiscard]] OpAttributes attributes_of(OpCode code, int64_t heads) const {
    OpAttributes attributes;
    attributes.epsilon = kEpsilon;
    if (code == OpCode::linear_rope_kv_write) attributes.length = heads;
    return attributes;
  }
  /// For a weight with two heads of k and of v.
  Rest rest_of(OpCode code, const Tensor& weight, int64_t rows) {
    const int64_t columns = weight.size(0);
    const Tensor bias = rows % 2 == 1 ? random({columns}) : Tensor();
    switch (code) {
      case OpCode::linear_add:
        return {.operands = {bias, random({rows, columns}), {}}};
      case OpCode::lm_head:
        return {.operands = {ints({1}, {static_cast<int32_t>(rows)}), {}}};
      case OpCode::linear_rope_kv_write:
        return heads_of(bias, columns, rows);
      default:
        return {.operands = {bias, {}}};
    }
  }
  Rest heads_of(const Tensor& bias, int64_t columns, int64_t rows) {
    const Tensor table = make({16, head_dim_}, DType::f32);
    fill(table, 1.0);
    std::vector<int32_t> positions;
    std::vector<int32_t> slots;
    for (int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<int32_t>(3 + row));
      slots.push_back(row == 2 ? -1 : static_cast<int32_t>(5 + 2 * row));
    }
    const Tensor keys = make({4, 2, 8, head_dim_});
    const Tensor values = make({4, 2, 8, head_dim_});
    return {.operands =
                {bias, ints({rows}, positions), table, keys, values, ints({rows}, slots), {}, {}},
            .caches = {keys, values},
            .heads = columns / head_dim_ - 4};
  }

  /// The bytes of a call that quantises inside, by a kernel of choice.
  Bytes bytes_inside(const OwnRowsCase& of,
                     Kernel kernel,
                     const Tensor& x,
                     const Tensor& weight,
                     const Tensor& norm,
                     const Rest& rest) {
    std::vector<Tensor> inputs{x, weight};
    inputs.insert(inputs.end(), rest.operands.begin(), rest.operands.end());
    if (of.has_norm) inputs.push_back(norm);
    return bytes_by(
        {.kernel = kernel}, of.code, inputs, attributes_of(of.code, rest.heads), rest.caches);
  }
  /// The same by the ops before the product, and the usual kernel of the product.
  Bytes bytes_apart(const OwnRowsCase& of,
                    const Tensor& x,
                    const Tensor& weight,
                    const Tensor& norm,
                    const Rest& rest) {
    for (const Tensor& cache : rest.caches) std::memset(cache.data(), 0xFF, cache.type().bytes());
    const auto [rows, scales] = quantise(x, weight, of.has_norm ? norm : Tensor());
    if (of.code == OpCode::linear_rope_kv_write) return heads_apart(rows, scales, weight, rest);
    std::vector<Tensor> inputs{rows, weight};
    inputs.insert(inputs.end(), rest.operands.begin(), rest.operands.end());
    inputs.back() = scales;
    return bytes_of(run(of.code, inputs));
  }
  std::pair<Tensor, Tensor> quantise(const Tensor& x, const Tensor& weight, const Tensor& norm) {
    OpAttributes attributes;
    attributes.epsilon = kEpsilon;
    const Tensor rows = norm.defined() ? run(OpCode::rms_norm, {x, norm}, attributes) : x;
    if (is_float(weight)) return {rows, {}};
    if (!is_int8(weight)) return {quantized(rows), {}};
    attributes.type.dtype = DType::i8;
    std::array<Tensor, 2> outputs;
    executor_.execute(
        {.code = OpCode::quantize_per_token, .attributes = attributes}, {&rows, 1}, outputs);
    stream_->synchronize();
    return {outputs[0], outputs[1]};
  }
  Bytes heads_apart(const Tensor& rows,
                    const Tensor& scales,
                    const Tensor& weight,
                    const Rest& rest) {
    const Tensor p = run(OpCode::linear, {rows, weight, rest.operands[0], scales});
    const int64_t tokens = p.size(0);
    const auto part = [&](int64_t count, int64_t first) {
      return p.with_layout(
          {tokens, count, head_dim_}, {p.size(1), head_dim_, 1}, first * head_dim_);
    };
    std::vector<Tensor> inputs{part(rest.heads, 0), part(2, rest.heads), part(2, rest.heads + 2)};
    inputs.insert(inputs.end(), rest.operands.begin() + 1, rest.operands.end());
    Bytes bytes = bytes_of(run(OpCode::rope_kv_write, inputs, attributes_of(OpCode::linear, 0)));
    for (const Tensor& cache : rest.caches) {
      const Bytes more = bytes_of(cache);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    return bytes;
  }

  [[nodiscard]] bool quantises_inside() const {
    return functions_.size() == 1 && functions_.begin()->find("_own_rows_") != std::string::npos;
  }
  /// Expects the bits of the ops one after the other, from one launch of a streamed kernel, and
  /// from the usual kernels. `is_inside`: whether a kernel can quantise these rows.
  void expect_bits(const OwnRowsCase& of, const Tensor& x, const Tensor& weight, bool is_inside) {
    const Tensor norm = random({weight.size(1)});
    const Rest rest = rest_of(of.code, weight, x.size(0));
    const Bytes want = bytes_apart(of, x, weight, norm, rest);
    EXPECT_EQ(bytes_inside(of, Kernel::own, x, weight, norm, rest), want)
        << describe(of, x, weight);
    EXPECT_EQ(bytes_inside(of, Kernel::streamed, x, weight, norm, rest), want)
        << describe(of, x, weight);
    EXPECT_TRUE(machine_.is_real() || quantises_inside() == is_inside) << describe(of, x, weight);
  }
  static std::string describe(const OwnRowsCase& of, const Tensor& x, const Tensor& weight) {
    return std::string(op_name(of.code)) + (of.has_norm ? " with a norm of " : " of ") +
           x.type().to_string() + " and " + weight.type().to_string();
  }
  void expect_all(const Tensor& weight, int64_t rows) {
    for (const OwnRowsCase& of : kCases) {
      if (is_float(weight) && !of.has_norm) continue;  // these rows stay elements
      if (of.code == OpCode::linear_rope_kv_write && weight.size(0) % head_dim_ != 0) continue;
      if (of.code == OpCode::linear_silu_and_mul && weight.size(0) % 32 != 0) continue;
      expect_bits(of, random({rows, weight.size(1)}), weight, true);
      if (HasFailure()) return;
    }
  }
  void expect_all(const Tensor& weight, int64_t rows, const OwnRowsCase& of) {
    expect_bits(of, random({rows, weight.size(1)}), weight, true);
  }
};

TEST_P(StreamedOwnRows, have_the_bits_of_the_ops_one_after_the_other_in_every_codec) {
  for (const PanelFormat format : all_panel_formats()) {
    // More chunks of the depth than a slot has, and a last slot that is not full.
    const Tensor weight = blocks(format, 192, 1024 + 2 * panel_group_elements(format));
    for (const int64_t rows : {1, 4}) expect_all(weight, rows);
    if (HasFailure()) return;
  }
  for (const int64_t rows : {1, 3}) expect_all(int8s(192, 1152), rows);
  for (const PanelFormat codec : {PanelFormat::f8e4m3_rows,
                                  PanelFormat::f8e4m3_g128,
                                  PanelFormat::f8e5m2_rows,
                                  PanelFormat::f8e5m2_g128,
                                  PanelFormat::f4_g64}) {
    for (const int64_t rows : {1, 4}) expect_all(floats(codec, 192, 1152), rows);
  }
}

TEST_P(StreamedOwnRows, have_the_bits_of_the_ops_one_after_the_other_at_every_edge_of_the_depth) {
  // Odd numbers of blocks; up to 1,024 elements a warp norms a row, and from there on a block.
  for (const int64_t depth : {32, 64, 96, 224, 256, 992, 1024, 1056, 2048, 2080, 8192, 8224}) {
    for (const int64_t rows : {1, 2, 3, 4}) {
      if (rows > 1 && depth > 4096) continue;
      const Tensor weight = blocks(PanelFormat::q8_0, 192, depth);
      expect_all(weight, rows, {OpCode::linear_rope_kv_write, true});
      expect_all(weight, rows, {OpCode::linear_add});
      expect_all(int8s(192, depth), rows, {OpCode::linear_silu_and_mul, true});
      if (rows * depth > 8192) continue;
      const Tensor floating = floats(PanelFormat::f8e4m3_rows, 192, depth);
      expect_all(floating, rows, {OpCode::linear_rope_kv_write, true});
    }
    if (HasFailure()) return;
  }
  for (const int64_t columns : {1, 15, 17, 33, 80}) {
    expect_all(blocks(PanelFormat::q4_1, columns, 288), 2);
  }
}

TEST_P(StreamedOwnRows, have_the_bits_of_the_ops_one_after_the_other_at_real_depths) {
  for (const int64_t depth : {3584, 4096, 14336, 18944}) {
    for (const int64_t rows : {1, 2}) {
      expect_all(blocks(PanelFormat::int4_g128, 192, depth), rows, {OpCode::linear_add});
      if (depth > 4096) continue;
      expect_all(blocks(PanelFormat::q4_k, 192, 4096), rows, {OpCode::linear_silu_and_mul, true});
      expect_all(int8s(192, depth), rows, {OpCode::linear_rope_kv_write, true});
    }
  }
}

TEST_P(StreamedOwnRows, multiply_parts_in_different_codecs) {
  const Tensor weight = blocks({{.format = PanelFormat::q4_k, .columns = 64},
                                {.format = PanelFormat::q8_0, .columns = 64},
                                {.format = PanelFormat::q6_k, .columns = 64}},
                               1280);
  for (const int64_t rows : {1, 3}) expect_all(weight, rows);
}

TEST_P(StreamedOwnRows, rotate_heads_of_several_panels) {
  for (const int64_t head_dim : {64, 96, 128}) {
    head_dim_ = head_dim;
    for (const int64_t rows : {1, 4}) {
      expect_all(blocks(PanelFormat::int4_g128, 7 * head_dim, 256), rows, kCases.back());
      expect_all(int8s(5 * head_dim, 64), rows, kCases.back());
    }
  }
}

// The launches are those of the ops one after the other: nothing more is computed.
TEST_P(StreamedOwnRows, are_quantised_before_where_no_kernel_can_do_it) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver tells which kernels ran";
  const std::string type = dtype() == DType::bf16 ? "bf16" : "f16";
  const auto functions_of = [&](Kernel kernel, const Tensor& x, const Tensor& weight) {
    functions_.clear();
    const ProductChoice choice{.kernel = kernel};
    const ForcedChoice forced(executor_.choices(), choice);
    (void)run(OpCode::linear, {x, weight, {}});
    return functions_;
  };
  using Names = std::set<std::string>;
  const std::string quantisation = "reprise_quantize_blocks_" + type;
  const Tensor weight = blocks(PanelFormat::int4_g128, 32, 18944);
  EXPECT_EQ(functions_of(Kernel::streamed, random({2, 18944}), weight),
            Names{"reprise_packed_own_rows_streamed_linear_few"});
  // More rows than fit beside the ring, more than a kernel takes, or no streamed kernel at all.
  EXPECT_EQ(functions_of(Kernel::streamed, random({3, 18944}), weight),
            (Names{quantisation, "reprise_packed_streamed_linear_few"}));
  const Tensor small = blocks(PanelFormat::q8_0, 32, 128);
  EXPECT_EQ(functions_of(Kernel::streamed, random({5, 128}), small),
            (Names{quantisation, "reprise_packed_streamed_linear_eight"}));
  EXPECT_EQ(functions_of(Kernel::own, random({1, 128}), small),
            (Names{quantisation, "reprise_packed_linear_8"}));
  EXPECT_EQ(functions_of(Kernel::built_in, random({9, 128}), small),
            (Names{quantisation, "reprise_packed_linear_16"}));
  EXPECT_EQ(functions_of(Kernel::own, random({1, 128}), int8s(32, 128)),
            (Names{"reprise_quantize_per_token_i8_" + type, "reprise_int8_linear_8"}));
  // Rows in any place.
  const Tensor x = random({2, 133}).with_layout({2, 128}, {133, 1}, 1);
  EXPECT_EQ(functions_of(Kernel::streamed, x, small),
            (Names{quantisation, "reprise_packed_streamed_linear_few"}));
  for (const OwnRowsCase& of : kCases) expect_bits(of, random({6, 256}), int8s(192, 256), false);
  const Tensor floating = floats(PanelFormat::f8e4m3_rows, 192, 256);
  for (const OwnRowsCase& of : kCases) expect_bits(of, random({6, 256}), floating, false);
}

TEST_P(StreamedOwnRows, with_norms_of_heads_take_a_launch_for_the_heads) {
  const Tensor weight = blocks(PanelFormat::q8_0, 192, 256);
  const OwnRowsCase of{OpCode::linear_rope_kv_write, true};
  Rest rest = rest_of(of.code, weight, 2);
  rest.operands[6] = random({head_dim_});
  rest.operands[7] = random({head_dim_});
  const Tensor x = random({2, 256});
  const Tensor norm = random({256});
  const Bytes want = bytes_apart(of, x, weight, norm, rest);
  EXPECT_EQ(bytes_inside(of, Kernel::streamed, x, weight, norm, rest), want);
  if (machine_.is_real()) return;
  EXPECT_EQ(functions_.size(), 2U);
  EXPECT_TRUE(functions_.contains("reprise_packed_own_rows_streamed_linear_few"));
}

TEST_P(StreamedOwnRows, without_a_number_or_without_a_size_have_the_same_bits) {
  for (const Tensor& weight : {blocks(PanelFormat::q4_k, 192, 1280), int8s(192, 1280)}) {
    const Tensor x = random({4, 1280});
    for (int64_t i = 0; i < 1280; ++i) {
      set_element(x, 0, 0, i);
      if (i % 64 < 32) set_element(x, 0, 1, i);
      if (i % 3 == 0) set_element(x, 1e-40, 2, i);
    }
    set_element(x, std::numeric_limits<double>::infinity(), 2, 700);
    set_element(x, std::nan(""), 3, 40);
    expect_bits({OpCode::linear}, x, weight, true);
    // The payload of a NaN is not promised.
    if (!is_int8(weight))
      expect_bits({OpCode::linear_add}, x.with_layout({2, 1280}, {1280, 1}, 0), weight, true);
  }
}

TEST_P(StreamedOwnRows, compute_only_the_rows_that_are_wanted_when_they_run) {
  for (const Tensor& weight : {blocks(PanelFormat::int4_g128, 50, 1152), int8s(64, 1152)}) {
    for (const int32_t wanted : {0, 1, 3, 4, 40}) {
      const Tensor x = random({4, 1152});
      // Rows that are not wanted may hold anything.
      for (int64_t row = wanted; row < 4; ++row) {
        std::memset(x.data_as<std::byte>() + row * 1152 * 2, 0xFF, size_t{1152} * 2);
      }
      const Tensor norm = random({1152});
      const Rest rest{.operands = {ints({1}, {wanted}), {}}};
      const auto rows_of = [&](Bytes bytes) {
        bytes.resize(static_cast<size_t>(std::min(wanted, 4)) *
                     static_cast<size_t>(weight.size(0)) * 4);
        return bytes;
      };
      const OwnRowsCase of{OpCode::lm_head, true};
      EXPECT_EQ(rows_of(bytes_inside(of, Kernel::streamed, x, weight, norm, rest)),
                rows_of(bytes_apart(of, x, weight, norm, rest)))
          << wanted;
    }
  }
}

TEST_P(StreamedOwnRows, have_the_same_bits_in_every_order_of_threads_and_copies) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU chooses its order itself";
  for (const Tensor& weight : {blocks(PanelFormat::int4_g128, 576, 1664),
                               int8s(576, 1664),
                               floats(PanelFormat::f4_g64, 576, 1152)}) {
    const Tensor x = random({3, weight.size(1)});
    const Tensor norm = random({weight.size(1)});
    for (const OwnRowsCase& of : {OwnRowsCase{OpCode::linear},
                                  OwnRowsCase{OpCode::linear_silu_and_mul, true},
                                  OwnRowsCase{OpCode::linear_rope_kv_write, true}}) {
      const Rest rest = rest_of(of.code, weight, 3);
      const Bytes want = bytes_apart(of, x, weight, norm, rest);
      for (uint64_t number = 0; number <= 6; ++number) {
        const HostOrder order(number);
        EXPECT_EQ(bytes_inside(of, Kernel::streamed, x, weight, norm, rest), want)
            << describe(of, x, weight) << ", order " << number;
      }
    }
  }
}

TEST_P(StreamedOwnRows, are_read_only_when_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  const ProductChoice streamed{.kernel = Kernel::streamed};
  const ForcedChoice forced(executor_.choices(), streamed);
  for (const Tensor& weight : {blocks(PanelFormat::int4_g128, 192, 1152),
                               int8s(192, 1152),
                               floats(PanelFormat::f8e4m3_g128, 192, 1152)}) {
    for (const int64_t rows : {1, 4}) {
      const Tensor x = random({rows, 1152});
      const Tensor norm = random({1152});
      for (const OwnRowsCase& of : kCases) {
        const Rest rest = rest_of(of.code, weight, rows);
        std::vector<Tensor> inputs{x, weight};
        inputs.insert(inputs.end(), rest.operands.begin(), rest.operands.end());
        if (of.has_norm) inputs.push_back(norm);
        inputs.resize(definition_of(of.code).rule.operands.size);
        std::vector<Tensor> written{x};
        if (of.code == OpCode::linear_add) written.push_back(rest.operands[1]);
        if (of.code == OpCode::lm_head) written.push_back(rest.operands[0]);
        if (of.code == OpCode::linear_rope_kv_write) {
          written.insert(written.end(), {rest.operands[1], rest.operands[5]});
        }
        expect_same_bits_behind_kernels(
            of.code, inputs, attributes_of(of.code, rest.heads), written);
      }
    }
  }
}

TEST_P(StreamedOwnRows, copy_nothing_behind_the_ends_of_weights_and_rows) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not reach this memory";
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  const auto guarded = [&](const Tensor& tensor) {
    const size_t bytes = tensor.type().bytes();
    memory.push_back(std::make_unique<GuardedMemory>(bytes));
    std::memcpy(memory.back()->data(), tensor.data(), bytes);
    return Tensor::borrow(tensor.type(), memory.back()->data(), executor_);
  };
  for (const Tensor& weight : {blocks(PanelFormat::int4_g128, 192, 1152),
                               blocks(PanelFormat::q8_0, 192, 1120),
                               blocks(PanelFormat::q6_k, 192, 1280),
                               int8s(192, 1120),
                               floats(PanelFormat::f8e5m2_rows, 192, 1120)}) {
    const Tensor far = guarded(weight);
    for (const OwnRowsCase& of : kCases) {
      const Tensor x = guarded(random({3, weight.size(1)}));
      const Tensor norm = guarded(random({weight.size(1)}));
      const Rest rest = rest_of(of.code, weight, 3);
      EXPECT_EQ(bytes_inside(of, Kernel::streamed, x, far, norm, rest),
                bytes_apart(of, x, weight, norm, rest))
          << describe(of, x, weight);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         StreamedOwnRows,
                         testing::Values(DType::bf16, DType::f16),
                         StreamedOps::name_of);

}  // namespace
}  // namespace reprise::kernels::cuda
