#include "tests/support/compile/decoder_fixture.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "reprise/program/verify.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::NodeAttributes;
using program::Program;
using program::Symbol;
using program::SymInt;
using program::SymShape;
using program::ValueId;

constexpr int64_t kHidden = 32;
constexpr int64_t kHeadDim = 16;
constexpr int64_t kIntermediate = 48;
constexpr int64_t kVocab = 50;
constexpr int64_t kMaxPosition = 64;
constexpr float kEpsilon = 1e-6F;

const CustomOp& experts_op() {
  static const CustomOp op = {
      .name = "test::experts",
      .num_inputs = 2,
      .infer_types = [](std::span<const Tensor> inputs, std::span<TensorType> outputs) {
        outputs[0] = inputs[0].type();
      }};
  return op;
}

class DecoderBuilder {
 public:
  explicit DecoderBuilder(const DecoderOptions& options) : options_(options) {
    const auto ints = [this](const char* name, SymShape shape) {
      return program_.add_input(name, {DType::i32, shape});
    };
    ids_ = ints("input_ids", {Symbol::num_tokens});
    positions_ = ints("positions", {Symbol::num_tokens});
    slots_ = ints("slot_mapping", {Symbol::num_tokens});
    query_start_loc_ = ints("query_start_loc", {SymInt(Symbol::num_reqs, 1, 1)});
    seq_lens_ = ints("seq_lens", {Symbol::num_reqs});
    block_table_ = ints("block_table", {Symbol::num_reqs, 4});
    logits_indices_ = ints("logits_indices", {Symbol::num_logits});
    num_logits_ = ints("num_logits", {1});
  }

  Program build() && {
    const ValueId table = parameter({kVocab, kHidden});
    cos_sin_ = parameter({kMaxPosition, kHeadDim});
    ValueId hidden = reduced(add(OpCode::embedding, {}, {ids_, table}, {kTokens, kHidden}));
    for (int layer = 0; layer < options_.num_layers; ++layer) {
      hidden = plus(hidden, attention(normed(hidden)));
      hidden = plus(hidden, mlp(normed(hidden)));
    }
    const ValueId rows = add(
        OpCode::gather_rows, {}, {normed(hidden), logits_indices_}, {Symbol::num_logits, kHidden});
    const ValueId head = parameter({kVocab, kHidden});
    program_.outputs = {
        add(OpCode::lm_head, {}, {rows, head, num_logits_}, {Symbol::num_logits, kVocab})};
    EXPECT_EQ(program::verify(program_).value_or(""), "");
    return std::move(program_);
  }

 private:
  static constexpr SymInt kTokens{Symbol::num_tokens};

  ValueId parameter(SymShape shape, DType dtype = DType::f32) {
    return program_.add_parameter({dtype, shape});
  }
  ValueId add(OpCode op,
              const NodeAttributes& attributes,
              std::vector<ValueId> inputs,
              SymShape shape,
              DType dtype = DType::f32) {
    const ValueId result = program_.add_value({dtype, shape});
    program_.nodes.push_back({op, attributes, std::move(inputs), {result}, {}});
    leave_out_last_operands(program_.nodes.back());
    return result;
  }
  ValueId normed(ValueId x) {
    const SymShape shape = program_.type(x).shape;  // copied: a new parameter moves the values
    return add(
        OpCode::rms_norm, {.epsilon = kEpsilon}, {x, parameter({shape[shape.rank() - 1]})}, shape);
  }
  ValueId plus(ValueId residual, ValueId x) {
    return add(OpCode::add, {}, {residual, x}, {kTokens, kHidden});
  }
  ValueId reduced(ValueId x) {
    if (options_.ranks == 1) return x;
    return add(OpCode::all_reduce, {.ranks = options_.ranks}, {x}, {kTokens, kHidden});
  }
  ValueId linear(ValueId x, int64_t width, bool has_one_scale = false) {
    const SymInt in = program_.type(x).shape[1];
    if (!options_.is_quantized) {
      return add(OpCode::linear, {}, {x, parameter({width, in}), kNoValue}, {kTokens, width});
    }
    ValueId quantized{};
    ValueId scale{};
    if (has_one_scale) {
      scale = parameter({1});
      quantized =
          add(OpCode::quantize_static, {.dtype = DType::i8}, {x, scale}, {kTokens, in}, DType::i8);
    } else {
      quantized =
          add(OpCode::quantize_per_token, {.dtype = DType::i8}, {x}, {kTokens, in}, DType::i8);
      scale = program_.add_value({DType::f32, {kTokens}});
      program_.nodes.back().outputs.push_back(scale);
    }
    const ValueId weight = parameter({width, in}, DType::i8);
    return add(OpCode::scaled_linear,
               {.dtype = DType::f32},
               {quantized, scale, weight, parameter({width}), kNoValue},
               {kTokens, width});
  }
  ValueId heads_of(ValueId qkv, int64_t first, int64_t count) {
    const ValueId part = add(OpCode::slice,
                             {.dim = 1, .begin = first * kHeadDim, .length = count * kHeadDim},
                             {qkv},
                             {kTokens, count * kHeadDim});
    const ValueId heads =
        add(OpCode::unflatten, {.length = count}, {part}, {kTokens, count, kHeadDim});
    const bool is_v = first == options_.num_heads + 1;
    return options_.has_qk_norm && !is_v ? normed(heads) : heads;
  }
  ValueId attention(ValueId x) {
    const int64_t num_heads = options_.num_heads;
    const ValueId qkv = linear(x, (num_heads + 2) * kHeadDim);
    const ValueId q = heads_of(qkv, 0, num_heads);
    const ValueId k = heads_of(qkv, num_heads, 1);
    const ValueId v = heads_of(qkv, num_heads + 1, 1);
    const SymShape heads = {kTokens, num_heads, kHeadDim};
    const ValueId rotated = add(OpCode::rope, {}, {q, k, positions_, cos_sin_}, heads);
    const ValueId keys = program_.add_value({DType::f32, {kTokens, 1, kHeadDim}});
    program_.nodes.back().outputs.push_back(keys);
    const program::ValueType cache{DType::f32, {Symbol::num_blocks, 1, 16, kHeadDim}};
    const ValueId key_cache = program_.add_state(cache);
    const ValueId value_cache = program_.add_state(cache);
    const ValueId written_keys = program_.add_next_version(key_cache);
    const ValueId written_values = program_.add_next_version(value_cache);
    program_.nodes.push_back({OpCode::kv_write,
                              {},
                              {keys, v, key_cache, value_cache, slots_},
                              {written_keys, written_values},
                              {}});
    const ValueId memory = add(OpCode::empty, {}, {}, heads);
    const ValueId result = add(
        OpCode::attention,
        {.scale = 0.25F},
        {rotated, written_keys, written_values, query_start_loc_, seq_lens_, block_table_, memory},
        heads);
    const ValueId flat = add(OpCode::flatten, {}, {result}, {kTokens, num_heads * kHeadDim});
    return reduced(linear(flat, kHidden, /*has_one_scale=*/true));
  }
  ValueId mlp(ValueId x) {
    if (options_.has_experts) {
      return reduced(add(OpCode::custom,
                         {.custom = &experts_op()},
                         {x, parameter({kHidden, kHidden})},
                         {kTokens, kHidden}));
    }
    const ValueId gate_up = linear(x, 2 * kIntermediate);
    const ValueId activated = add(OpCode::silu_and_mul, {}, {gate_up}, {kTokens, kIntermediate});
    return reduced(linear(activated, kHidden));
  }

  DecoderOptions options_;
  Program program_;
  ValueId ids_{}, positions_{}, slots_{}, query_start_loc_{}, seq_lens_{}, block_table_{};
  ValueId logits_indices_{}, num_logits_{}, cos_sin_{};
};

}  // namespace

Program make_decoder(const DecoderOptions& options) { return DecoderBuilder(options).build(); }

}  // namespace reprise::compile
