#include "reprise/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/op_table.h"
#include "reprise/tensor/ops.h"

namespace reprise {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Keeps the last call. Its results have the inferred types but no memory.
class RecordingExecutor final : public OpExecutor {
 public:
  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override {
    std::array<TensorType, kMaxOpOutputs> types;
    ASSERT_EQ(infer_output_types(call, inputs, types), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = Tensor::borrow(types[i], nullptr, *this);
    }
    last_call = call;
    last_inputs.assign(inputs.begin(), inputs.end());
  }

  std::optional<OpCall> last_call;
  std::vector<Tensor> last_inputs;
};

class Ops : public testing::Test {
 protected:
  Tensor f(Shape shape, DType dtype = DType::bf16) {
    return Tensor::borrow({dtype, shape}, nullptr, executor_);
  }
  Tensor i(Shape shape) { return f(shape, DType::i32); }
  Tensor weight(Shape shape, const WeightLayout& layout) {
    return Tensor::borrow({DType::bf16, shape, layout}, nullptr, executor_);
  }
  RecordingExecutor executor_;
};

TEST(Shape, indexes_from_both_ends) {
  Shape shape = {2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[0], 2);
  shape[-2] = 7;
  EXPECT_EQ(shape, (Shape{2, 7, 4}));
  EXPECT_EQ(shape.num_elements(), 56);
  EXPECT_EQ(shape.to_string(), "[2, 7, 4]");
}

TEST(Shape, of_rank_zero_is_one_element) {
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ((Shape{0, 5}).num_elements(), 0);
}

TEST(Shape, has_dense_strides) {
  EXPECT_EQ((Shape{2, 3, 4}).dense_strides(), (Shape{12, 4, 1}));
  EXPECT_EQ((Shape{5}).dense_strides(), (Shape{1}));
}

TEST(ShapeDeathTest, refuses_a_dimension_outside) {
  EXPECT_DEATH((void)(Shape{2, 3})[2], "dimension 2 of rank 2");
  EXPECT_DEATH((void)(Shape{2, 3})[-3], "dimension -3 of rank 2");
}

TEST(DTypeNames, read_back_and_know_their_other_spellings) {
  for (DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::i8, DType::u8, DType::i32, DType::i64}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("torch.bfloat16"), DType::bf16);
  EXPECT_EQ(parse_dtype("half"), DType::f16);
  EXPECT_EQ(parse_dtype("float"), DType::f32);
  EXPECT_EQ(parse_dtype("float8"), std::nullopt);
}

TEST_F(Ops, a_default_tensor_is_undefined) {
  EXPECT_FALSE(Tensor().defined());
  EXPECT_TRUE(f({1}).defined());
}

TEST_F(Ops, a_type_says_itself_and_its_size) {
  EXPECT_EQ(f({3, 4096}).type().to_string(), "bfloat16[3, 4096]");
  EXPECT_EQ(f({3, 4096}).type().bytes(), 3U * 4096 * 2);
  EXPECT_EQ(i({0}).type().bytes(), 0U);
}

TEST_F(Ops, an_extent_reaches_from_the_first_to_the_last_element) {
  std::array<float, 64> memory{};
  const Tensor dense = Tensor::borrow({DType::f32, {4, 16}}, memory.data(), executor_);
  EXPECT_EQ(dense.extent(), (device::BufferView{memory.data(), 256}));
  const Tensor view = dense.with_layout({3, 4}, {16, 1}, 17);
  EXPECT_EQ(view.extent(), (device::BufferView{memory.data() + 17, (2 * 16 + 4) * sizeof(float)}));
  EXPECT_FALSE(view.is_dense());
  EXPECT_EQ(dense.with_layout({0, 16}, {16, 1}, 0).extent().bytes, 0U);
  EXPECT_EQ(dense.without_ownership().extent(), dense.extent());
}

TEST_F(Ops, a_view_of_a_traced_tensor_has_no_address) {
  EXPECT_EQ(f({4, 16}).with_layout({2, 16}, {16, 1}, 32).data(), nullptr);
}

TEST_F(Ops, results_have_the_inferred_types) {
  EXPECT_EQ(ops::embedding(i({5}), f({50, 8})).type(), f({5, 8}).type());
  EXPECT_EQ(ops::rms_norm(f({5, 8}), f({8}), 1e-6F).type(), f({5, 8}).type());
  EXPECT_EQ(ops::rms_norm(f({5, 2, 8}), f({8}), 1e-6F).type(), f({5, 2, 8}).type());
  EXPECT_EQ(ops::add(f({5, 8}), f({5, 8})).type(), f({5, 8}).type());
  const auto [normed, sum] = ops::fused_add_rms_norm(f({5, 8}), f({5, 8}), f({8}), 1e-6F);
  EXPECT_EQ(normed.type(), f({5, 8}).type());
  EXPECT_EQ(sum.type(), f({5, 8}).type());
  EXPECT_EQ(ops::silu_and_mul(f({5, 8})).type(), f({5, 4}).type());
  EXPECT_EQ(ops::gather_rows(f({5, 8}), i({2})).type(), f({2, 8}).type());
  EXPECT_EQ(ops::linear(f({5, 8}), f({3, 8})).type(), f({5, 3}).type());
  EXPECT_EQ(ops::linear(f({5, 8}), f({3, 8}), f({3})).type(), f({5, 3}).type());
  EXPECT_EQ(ops::lm_head(f({5, 8}), f({50, 8}), i({1})).type(), f({5, 50}, DType::f32).type());
  EXPECT_EQ(ops::slice(f({5, 8}), 1, 2, 3).type(), f({5, 3}).type());
  EXPECT_EQ(ops::slice(f({5, 8}), 0, 5, 0).type(), f({0, 8}).type());
  EXPECT_EQ(ops::unflatten(f({5, 8}), 4).type(), f({5, 4, 2}).type());
  EXPECT_EQ(ops::flatten(f({5, 4, 2})).type(), f({5, 8}).type());
  EXPECT_EQ(ops::empty_like(i({7})).type(), i({7}).type());
  const auto [q, k] = ops::rope(f({5, 4, 8}), f({5, 2, 8}), i({5}), f({64, 8}, DType::f32));
  EXPECT_EQ(q.type(), f({5, 4, 8}).type());
  EXPECT_EQ(k.type(), f({5, 2, 8}).type());
}

TEST_F(Ops, carry_their_attributes_to_the_executor) {
  (void)ops::rms_norm(f({5, 8}), f({8}), 1e-5F);
  EXPECT_EQ(executor_.last_call->code, OpCode::rms_norm);
  EXPECT_EQ(executor_.last_call->attributes.epsilon, 1e-5F);
  (void)ops::slice(f({5, 8}), 1, 2, 3);
  EXPECT_EQ(executor_.last_call->attributes.dim, 1);
  EXPECT_EQ(executor_.last_call->attributes.begin, 2);
  EXPECT_EQ(executor_.last_call->attributes.length, 3);
  ops::attention(f({5, 4, 8}),
                 f({9, 2, 16, 8}),
                 f({9, 2, 16, 8}),
                 {.query_start_loc = i({4}),
                  .seq_lens = i({3}),
                  .block_table = i({3, 2}),
                  .scale = 0.5F,
                  .v_scale = 0.25F,
                  .sliding_window = 7},
                 f({5, 4, 8}));
  EXPECT_EQ(executor_.last_call->code, OpCode::attention);
  EXPECT_EQ(executor_.last_call->attributes.scale, 0.5F);
  EXPECT_EQ(executor_.last_call->attributes.k_scale, 1.0F);
  EXPECT_EQ(executor_.last_call->attributes.v_scale, 0.25F);
  EXPECT_EQ(executor_.last_call->attributes.sliding_window, 7);
  EXPECT_EQ(executor_.last_inputs.size(), 7U);
}

TEST_F(Ops, pass_an_absent_bias_as_an_undefined_tensor) {
  (void)ops::linear(f({5, 8}), f({3, 8}));
  EXPECT_EQ(executor_.last_inputs.size(), 4U);
  EXPECT_FALSE(executor_.last_inputs[2].defined());
}

TEST_F(Ops, refuse_arguments_that_do_not_fit) {
  EXPECT_THROW((void)ops::embedding(f({5}), f({50, 8})), ShapeError);
  EXPECT_THROW((void)ops::embedding(i({5}), f({50})), ShapeError);
  EXPECT_THROW((void)ops::rms_norm(f({5, 8}), f({7}), 0), ShapeError);
  EXPECT_THROW((void)ops::rms_norm(f({8}), f({8}), 0), ShapeError);
  EXPECT_THROW((void)ops::rms_norm(f({5, 8}), f({8}, DType::f32), 0), ShapeError);
  EXPECT_THROW((void)ops::add(f({5, 8}), f({5, 7})), ShapeError);
  EXPECT_THROW((void)ops::add(f({5, 8}), f({5, 8}, DType::f16)), ShapeError);
  EXPECT_THROW((void)ops::fused_add_rms_norm(f({5, 8}), f({4, 8}), f({8}), 0), ShapeError);
  EXPECT_THROW((void)ops::fused_add_rms_norm(f({5, 8}), f({5, 8}), f({7}), 0), ShapeError);
  EXPECT_THROW((void)ops::fused_add_rms_norm(f({8}), f({8}), f({8}), 0), ShapeError);
  EXPECT_THROW((void)ops::silu_and_mul(f({5, 7})), ShapeError);
  EXPECT_THROW((void)ops::activation(f({5, 8}), OpFunction::none), ShapeError);
  EXPECT_THROW((void)ops::activation_and_mul(f({5, 8}), OpFunction::relu), ShapeError);
  EXPECT_THROW((void)ops::gather_rows(f({5, 8}), f({2})), ShapeError);
  EXPECT_THROW((void)ops::linear(f({5, 8}), f({3, 7})), ShapeError);
  EXPECT_THROW((void)ops::linear(f({5, 8}), f({3, 8}, DType::f32)), ShapeError);
  EXPECT_THROW((void)ops::linear(f({5, 8}), f({3, 8}), f({4})), ShapeError);
  EXPECT_THROW((void)ops::linear(f({5, 8}), f({3, 8}), f({3}, DType::f32)), ShapeError);
  EXPECT_THROW((void)ops::lm_head(f({5, 8}), f({50, 8}), i({2})), ShapeError);
  const Tensor panels = weight({32, 8}, column_panels_layout());
  EXPECT_THROW((void)ops::linear(panels, panels), ShapeError);
  EXPECT_THROW((void)ops::linear(f({5, 8}, DType::f32), panels), ShapeError);
  EXPECT_THROW((void)ops::slice(panels, 0, 0, 16), ShapeError);
  EXPECT_THROW((void)ops::rms_norm(panels, f({8}), 1e-6F), ShapeError);
  EXPECT_THROW((void)ops::expert_linear(f({5, 8}), panels, {}, i({5, 1})), ShapeError);
  EXPECT_THROW((void)ops::slice(f({5, 8}), 1, 2, 7), ShapeError);
  EXPECT_THROW((void)ops::slice(f({5, 8}), 2, 0, 0), ShapeError);
  EXPECT_THROW((void)ops::slice(f({5, 8}), 0, -1, 2), ShapeError);
  EXPECT_THROW((void)ops::unflatten(f({5, 8}), 3), ShapeError);
  EXPECT_THROW((void)ops::unflatten(f({5, 8}), 0), ShapeError);
  EXPECT_THROW((void)ops::flatten(f({5, 8})), ShapeError);
  const Tensor table = f({64, 8}, DType::f32);
  EXPECT_THROW((void)ops::rope(f({5, 4, 8}), f({4, 2, 8}), i({5}), table), ShapeError);
  EXPECT_THROW((void)ops::rope(f({5, 4, 8}), f({5, 2, 8}), i({4}), table), ShapeError);
  EXPECT_THROW((void)ops::rope(f({5, 4, 8}), f({5, 2, 8}), i({5}), f({64, 8})), ShapeError);
  EXPECT_THROW((void)ops::rope(f({5, 4, 7}), f({5, 2, 7}), i({5}), f({64, 7}, DType::f32)),
               ShapeError);
}

TEST_F(Ops, refuse_caches_that_do_not_fit) {
  const Tensor k = f({5, 2, 8});
  const Tensor cache = f({9, 2, 16, 8});
  EXPECT_NO_THROW(ops::kv_write(k, k, cache, cache, i({5})));
  EXPECT_THROW(ops::kv_write(k, k, cache, cache, i({4})), ShapeError);
  EXPECT_THROW(ops::kv_write(k, f({5, 1, 8}), cache, cache, i({5})), ShapeError);
  EXPECT_THROW(ops::kv_write(k, k, f({9, 3, 16, 8}), f({9, 3, 16, 8}), i({5})), ShapeError);
  const Tensor other = f({9, 2, 16, 8}, DType::f16);
  EXPECT_THROW(ops::kv_write(k, k, other, other, i({5})), ShapeError);

  // Caches of eight bits: a row is a head, or a head and a float32 scale.
  const auto write = [&](const Tensor& eight_bits) {
    ops::kv_write(k, k, eight_bits, eight_bits, i({5}), 0.5F, 2.0F);
  };
  EXPECT_NO_THROW(write(f({9, 2, 16, 8}, DType::f8e4m3)));
  EXPECT_NO_THROW(write(f({9, 2, 16, 8}, DType::f8e5m2)));
  EXPECT_NO_THROW(write(f({9, 2, 16, 12}, DType::f8e4m3)));
  EXPECT_NO_THROW(write(f({9, 2, 16, 12}, DType::i8)));
  EXPECT_THROW(write(f({9, 2, 16, 8}, DType::i8)), ShapeError);
  EXPECT_THROW(write(f({9, 2, 16, 10}, DType::i8)), ShapeError);
  EXPECT_THROW(write(f({9, 2, 16, 12})), ShapeError);
  EXPECT_THROW(ops::kv_write(k, k, cache, f({9, 2, 16, 8}, DType::f8e4m3), i({5})), ShapeError);

  const Tensor q = f({5, 4, 8});
  const ops::AttentionArguments fitting = {i({4}), i({3}), i({3, 2})};
  const auto attend =
      [&](const Tensor& query, const Tensor& keys, const ops::AttentionArguments& arguments) {
        ops::attention(query, keys, keys, arguments, query);
      };
  EXPECT_NO_THROW(attend(q, cache, fitting));
  EXPECT_THROW(attend(f({5, 3, 8}), cache, fitting), ShapeError);
  EXPECT_THROW(attend(f({5, 4, 16}), cache, fitting), ShapeError);
  EXPECT_THROW(attend(q, other, fitting), ShapeError);
  EXPECT_THROW(attend(q, f({9, 0, 16, 8}), fitting), ShapeError);
  EXPECT_THROW(attend(q, f({9, 2, 0, 8}), fitting), ShapeError);
  EXPECT_THROW(attend(q, cache, {i({3}), i({3}), i({3, 2})}), ShapeError);
  EXPECT_THROW(attend(q, cache, {i({4}), i({3}), i({2, 2})}), ShapeError);
  EXPECT_THROW(ops::attention(q, cache, cache, fitting, f({5, 4, 8}, DType::f32)), ShapeError);
}

TEST_F(Ops, refuse_to_merge_heads_that_lie_apart) {
  const Tensor wide = f({5, 4, 16}).with_layout({5, 4, 8}, {64, 16, 1}, 0);
  EXPECT_THROW((void)ops::flatten(wide), ShapeError);
}

TEST_F(Ops, say_the_op_the_types_and_the_rule_in_a_refusal) {
  try {
    (void)ops::linear(f({5, 8}), f({3, 7}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("linear(bfloat16[5, 8], bfloat16[3, 7]) does not fit"),
              HasSubstr("linear(x act[T, K], weight packed[N, K], bias[N]?, scale f32[T|1]?) "
                        "-> [T, N]: wrong shape of weight")));
  }
}

TEST_F(Ops, refuse_a_wrong_number_of_arguments) {
  const std::array<Tensor, 1> one = {f({5, 8})};
  std::array<TensorType, kMaxOpOutputs> types;
  EXPECT_THROW(infer_output_types({OpCode::add, {}}, one, types), ShapeError);
}

TEST(OpTable, has_a_row_for_every_op_in_the_order_of_the_codes) {
  EXPECT_EQ(op_name(OpCode::empty), "empty");
  EXPECT_EQ(op_name(OpCode::linear), "linear");
  EXPECT_EQ(op_name(OpCode::custom), "custom");
}

TEST(OpTable, finds_operands_by_name) {
  static_assert(operand_of<OpCode::linear>("weight") == 1);
  static_assert(operand_of<OpCode::attention>("out") == 6);
  const OpRule& rule = definition_of(OpCode::rope_kv_write).rule;
  EXPECT_EQ(operand_index(rule, "k_norm"), 9U);
  EXPECT_THAT(std::vector(rule.states.begin(), rule.states.end()), testing::ElementsAre(5U, 6U));
  EXPECT_TRUE(rule.writes_states);
  EXPECT_FALSE(definition_of(OpCode::attention).rule.writes_states);
  EXPECT_EQ(definition_of(OpCode::attention_quant).rule.buffer, 7U);
}

TEST_F(Ops, infer_sizes_that_are_sums_and_products) {
  const Tensor cache = f({9, 2, 16, 8});
  const Tensor table = f({64, 8}, DType::f32);
  std::array<TensorType, kMaxOpOutputs> types;
  const auto infer = [&](int64_t rows_of_weight) {
    const std::array<Tensor, 11> in = {
        f({5, 32}), f({rows_of_weight, 32}), {}, i({5}), table, cache, cache, i({5}), {}, {}, {}};
    return infer_output_types({OpCode::linear_rope_kv_write, {.length = 4}}, in, types);
  };
  EXPECT_EQ(infer(int64_t{4 + 2 * 2} * 8), 1U);
  EXPECT_EQ(types[0], f({5, 4, 8}).type());
  EXPECT_THROW(infer(int64_t{3 + 2 * 2} * 8), ShapeError);

  const std::array<Tensor, 1> x = {f({6, 8})};
  infer_output_types({OpCode::reduce_scatter, {.ranks = 3}}, x, types);
  EXPECT_EQ(types[0], f({2, 8}).type());
  EXPECT_THROW(infer_output_types({OpCode::reduce_scatter, {.ranks = 4}}, x, types), ShapeError);
  EXPECT_THROW(infer_output_types({OpCode::all_gather, {.ranks = 0}}, x, types), ShapeError);
}

TEST_F(Ops, take_eight_bits_from_operands_or_from_the_attribute) {
  std::array<TensorType, kMaxOpOutputs> types;
  const std::array<Tensor, 1> x = {f({6, 8})};
  const OpAttributes to_i8 = {.type = {DType::i8, {}}};
  EXPECT_EQ(infer_output_types({OpCode::quantize_per_token, to_i8}, x, types), 2U);
  EXPECT_EQ(types[0], f({6, 8}, DType::i8).type());
  EXPECT_EQ(types[1], f({6}, DType::f32).type());
  EXPECT_THROW(infer_output_types({OpCode::quantize_per_token, {}}, x, types), ShapeError);

  const auto scaled = [&](const Tensor& weight, const Tensor& scale) {
    const std::array<Tensor, 5> in = {
        f({6, 8}, DType::i8), scale, weight, f({3}, DType::f32), f({3})};
    return infer_output_types({OpCode::scaled_linear, {.type = {DType::bf16, {}}}}, in, types);
  };
  EXPECT_EQ(scaled(f({3, 8}, DType::i8), f({6}, DType::f32)), 1U);
  EXPECT_EQ(types[0], f({6, 3}).type());
  EXPECT_EQ(scaled(f({3, 8}, DType::i8), f({1}, DType::f32)), 1U);
  EXPECT_THROW(scaled(f({3, 8}, DType::i8), f({5}, DType::f32)), ShapeError);
  EXPECT_THROW(scaled(f({3, 8}, DType::f8e4m3), f({6}, DType::f32)), ShapeError);
}

TEST(ColumnPanels, hold_every_element_once_at_its_offset) {
  const int64_t columns = 48;
  for (const int64_t depth : {2, 6, 8, 22}) {
    SCOPED_TRACE(depth);
    std::vector<uint16_t> matrix(static_cast<size_t>(columns * depth));
    std::iota(matrix.begin(), matrix.end(), uint16_t{0});
    std::vector<uint16_t> panels(matrix.size());
    pack_column_panels(std::as_bytes(std::span(matrix)),
                       std::as_writable_bytes(std::span(panels)),
                       columns,
                       depth);
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t i = 0; i < depth; ++i) {
        const auto at = static_cast<size_t>(column_panel_offset(column, i, depth));
        EXPECT_EQ(panels[at], column * depth + i) << column << ", " << i;
      }
    }
    pack_column_panels(std::as_writable_bytes(std::span(matrix)), columns, depth);
    EXPECT_EQ(matrix, panels) << "in place";
  }
  EXPECT_TRUE(fits_column_panels(16, 2));
  EXPECT_FALSE(fits_column_panels(24, 2));
  EXPECT_FALSE(fits_column_panels(16, 3));
  EXPECT_FALSE(fits_column_panels(0, 2));
}

}  // namespace
TEST(WeightLayout, comes_back_from_its_text) {
  std::vector<WeightLayout> layouts = {{}, column_panels_layout(), block_panels_layout(144)};
  for (int i = kNumPanelFormats; i <= static_cast<int>(PanelFormat::f4_g64); ++i) {
    layouts.push_back(layout_of(static_cast<PanelFormat>(i), 256));
  }
  std::set<std::string> texts;
  for (const WeightLayout& layout : layouts) {
    EXPECT_EQ(parse_weight_layout(layout.to_string(), 256), layout) << layout.to_string();
    texts.insert(layout.to_string());
  }
  EXPECT_EQ(texts.size(), layouts.size());
  for (const char* text : {"block", "blocks", "blocks0", "blocks-1", "blocks7x", "q8_0_panels"}) {
    EXPECT_EQ(parse_weight_layout(text, 256), std::nullopt) << text;
  }
}

TEST(WeightLayout, says_how_many_bytes_a_matrix_has) {
  const auto bytes = [](const WeightLayout& layout) {
    return TensorType{DType::bf16, {32, 256}, layout}.bytes();
  };
  EXPECT_EQ(bytes({}), 32U * 256 * 2);
  EXPECT_EQ(bytes(column_panels_layout()), 32U * 256 * 2);
  EXPECT_EQ(bytes(block_panels_layout(144)), 32U * 144);
  EXPECT_EQ(bytes(layout_of(PanelFormat::int8_rows, 256)), 32U * (256 + 8));
  EXPECT_EQ(bytes(layout_of(PanelFormat::f4_g64, 256)), 32U * (128 + 4 * 4 + 4));
  EXPECT_EQ(layout_of(PanelFormat::f8e4m3_rows, 256).group(256), 256);
  EXPECT_EQ(layout_of(PanelFormat::f8e4m3_g128, 256).group(256), 128);
}

TEST_F(Ops, take_elements_or_the_activations_that_the_layout_of_a_weight_asks_for) {
  const Tensor x = f({5, 64});
  const Tensor codes = f({5, 64}, DType::i8);
  const Tensor blocks = f({5, 80}, DType::i8);
  const Tensor scales = f({5}, DType::f32);
  const Tensor none;
  const std::array weights = {weight({32, 64}, {}),
                              weight({32, 64}, layout_of(PanelFormat::int8_rows, 64)),
                              weight({32, 64}, block_panels_layout(90))};
  const std::array<std::pair<Tensor, Tensor>, 3> activations = {
      std::pair(x, none), std::pair(codes, scales), std::pair(blocks, none)};
  for (size_t w = 0; w < weights.size(); ++w) {
    for (size_t a = 0; a < activations.size(); ++a) {
      const auto& [rows, scale] = activations[a];
      if (w == a || a == 0) {
        EXPECT_EQ(ops::linear(rows, weights[w], none, scale).type(), f({5, 32}).type());
      } else {
        EXPECT_THROW((void)ops::linear(rows, weights[w], none, scale), ShapeError) << w << a;
      }
    }
  }
  EXPECT_THROW((void)ops::linear(codes, weights[1], none), ShapeError) << "without scales";
  EXPECT_THROW((void)ops::linear(x, weights[1], none, scales), ShapeError) << "scales of elements";
  EXPECT_THROW((void)ops::linear(f({5, 40}, DType::i8), weights[2], none), ShapeError) << "short";
}

}  // namespace reprise
