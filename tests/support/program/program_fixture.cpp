#include "tests/support/program/program_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <random>

#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/program/verify.h"
#include "reprise/tensor/view.h"

namespace reprise::program {
namespace {

class Fingerprint {
 public:
  void add(uint64_t value) {
    // The finaliser of SplitMix64.
    value_ = (value_ ^ value) + 0x9E3779B97F4A7C15ULL;
    value_ = (value_ ^ (value_ >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value_ = (value_ ^ (value_ >> 27)) * 0x94D049BB133111EBULL;
    value_ ^= value_ >> 31;
  }
  void add(const TensorType& type) {
    add(static_cast<uint64_t>(type.dtype));
    for (int64_t size : type.shape.sizes()) add(static_cast<uint64_t>(size));
  }
  [[nodiscard]] uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_ = 0;
};

Fingerprint fingerprint_of(const OpCall& call, std::span<const Tensor> inputs) {
  Fingerprint print;
  print.add(static_cast<uint64_t>(call.code));
  print.add(static_cast<uint64_t>(call.attributes.function));
  print.add(call.attributes.type);
  print.add(std::bit_cast<uint32_t>(call.attributes.epsilon));
  print.add(static_cast<uint64_t>(call.attributes.dim));
  print.add(static_cast<uint64_t>(call.attributes.begin));
  print.add(static_cast<uint64_t>(call.attributes.length));
  print.add(std::bit_cast<uint32_t>(call.attributes.scale));
  print.add(std::bit_cast<uint32_t>(call.attributes.k_scale));
  print.add(std::bit_cast<uint32_t>(call.attributes.v_scale));
  print.add(static_cast<uint64_t>(call.attributes.sliding_window));
  print.add(static_cast<uint64_t>(call.attributes.chunk_size));
  print.add(std::bit_cast<uint32_t>(call.attributes.soft_cap));
  print.add(static_cast<uint64_t>(call.attributes.groups));
  print.add(static_cast<uint64_t>(call.attributes.top_groups));
  print.add(std::bit_cast<uint32_t>(call.attributes.least));
  print.add(std::bit_cast<uint32_t>(call.attributes.limit));
  print.add(static_cast<uint64_t>(call.attributes.ranks));
  const OpSignature signature = signature_of(call);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // An operand that is completely overwritten is not read.
    const bool is_read = inputs[i].defined() && signature.out_buffer != i;
    print.add(is_read ? FingerprintExecutor::content(inputs[i]) : i);
    if (inputs[i].defined()) print.add(inputs[i].type());
  }
  return print;
}

std::vector<Tensor> make_tensors(FingerprintExecutor& executor,
                                 const Program& program,
                                 const std::vector<ValueId>& ids,
                                 const SymbolValues& values,
                                 uint64_t seed) {
  std::vector<Tensor> tensors;
  for (ValueId id : ids)
    tensors.push_back(executor.make(program.type(id).evaluate(values), ++seed));
  return tensors;
}

// Runs the program whole or in pieces, with equal tensors.
template <typename Run>
std::vector<uint64_t> fingerprints_of(const Program& program,
                                      const SymbolValues& values,
                                      Run&& run) {
  FingerprintExecutor executor;
  std::vector<ValueId> input_ids;
  for (const ProgramInput& input : program.inputs) input_ids.push_back(input.value);
  const std::vector<Tensor> inputs = make_tensors(executor, program, input_ids, values, 1'000);
  const SlotTensors slots{make_tensors(executor, program, program.parameters, values, 2'000),
                          make_tensors(executor, program, program.states, values, 3'000)};
  std::vector<uint64_t> found;
  for (const Tensor& output : run(inputs, slots, executor)) {
    found.push_back(FingerprintExecutor::content(output));
  }
  for (const Tensor& state : slots.states) found.push_back(FingerprintExecutor::content(state));
  return found;
}

constexpr int64_t kNumBlocks = 24;
constexpr int64_t kBlockSize = 16;
constexpr int64_t kMaxBlocks = 4;
constexpr int64_t kVocab = 50;
constexpr int64_t kMaxPosition = 64;

// Adds nodes. The op's own rule gives their result types; it runs at several sizes, to find
// symbolic shapes.
class RandomBuilder {
 public:
  RandomBuilder(uint32_t seed, const RandomProgramOptions& options)
      : random_(seed), options_(options) {
    ids_ = input("input_ids", {Symbol::num_tokens});
    positions_ = input("positions", {Symbol::num_tokens});
    slots_ = input("slot_mapping", {Symbol::num_tokens});
    query_start_loc_ = input("query_start_loc", {SymInt(Symbol::num_reqs, 1, 1)});
    seq_lens_ = input("seq_lens", {Symbol::num_reqs});
    block_table_ = input("block_table", {Symbol::num_reqs, kMaxBlocks});
    logits_indices_ = input("logits_indices", {Symbol::num_logits});
    num_logits_ = input("num_logits", {1});
  }

  Program build() {
    add(OpCode::embedding, {}, {ids_, parameter({kVocab, pick_width()})});
    for (int step = 0; step < options_.num_steps; ++step) add_step();
    const int num_outputs = pick(1, 3);
    for (int i = 0; i < num_outputs; ++i) program_.outputs.push_back(pick_value());
    return std::move(program_);
  }

 private:
  static constexpr std::array kPoints = {
      SymbolValues{7, 3, 2}, SymbolValues{1031, 5, 3}, SymbolValues{131, 11, 13}};
  using Samples = std::array<Tensor, kPoints.size()>;

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  OpFunction pick_one(OpFunction a, OpFunction b) { return pick(0, 1) == 0 ? a : b; }
  int64_t pick_width() { return int64_t{16} << pick(0, 2); }
  ValueId pick_value() {
    return pool_[static_cast<size_t>(pick(0, static_cast<int>(pool_.size()) - 1))];
  }
  ValueId input(std::string name, SymShape shape) {
    return sampled(program_.add_input(std::move(name), {DType::i32, shape}));
  }
  ValueId parameter(SymShape shape) {
    return sampled(program_.add_parameter({options_.dtype, shape}));
  }
  // Makes dense tensors of several sizes for a value.
  ValueId sampled(ValueId id) {
    samples_.resize(program_.values.size());
    for (size_t i = 0; i < kPoints.size(); ++i) {
      samples_[index_of(id)][i] =
          Tensor::borrow(program_.type(id).evaluate(kPoints[i]), nullptr, executor_);
    }
    return id;
  }
  const Shape& shape(ValueId id) { return samples_[index_of(id)][0].shape(); }
  const SymInt& rows(ValueId id) { return program_.type(id).shape[0]; }

  // Adds an op and returns its first result, which also becomes an operand for later ops; returns
  // nothing if the operands do not fit the op.
  std::optional<ValueId> add(OpCode op,
                             const NodeAttributes& attributes,
                             std::vector<ValueId> inputs) {
    Node node{.op = op, .attributes = attributes, .inputs = std::move(inputs)};
    leave_out_last_operands(node);
    std::array<std::array<TensorType, kMaxOpOutputs>, kPoints.size()> types;
    size_t num_results = 0;
    for (size_t i = 0; i < kPoints.size(); ++i) {
      try {
        num_results = infer_output_types(call_at(node, i), operands(node, i), types[i]);
      } catch (const ShapeError&) {
        return std::nullopt;
      }
    }
    for (size_t result = 0; result < num_results; ++result) {
      ValueType type{.dtype = types[0][result].dtype};
      for (int dim = 0; dim < types[0][result].shape.rank(); ++dim) {
        std::array<SizeSample, kPoints.size()> sizes;
        for (size_t i = 0; i < kPoints.size(); ++i)
          sizes[i] = {types[i][result].shape[dim], kPoints[i]};
        type.shape.push_back(*fit(sizes));
      }
      node.outputs.push_back(sampled(program_.add_value(type)));
    }
    const OpSignature signature = signature_of(program_, node);
    if (signature.writes_states) {
      for (size_t operand : signature.states) {
        node.outputs.push_back(sampled(program_.add_next_version(node.inputs[operand])));
      }
    }
    if (signature.out_buffer) {
      node.outputs.push_back(
          sampled(program_.add_value(program_.type(node.inputs[*signature.out_buffer]))));
    }
    for (size_t i = 0; is_view(node.op) && i < kPoints.size(); ++i) {
      samples_[index_of(node.outputs[0])][i] =
          make_view(call_at(node, i), samples_[index_of(node.inputs[0])][i]);
    }
    pool_.insert(pool_.end(),
                 node.outputs.begin(),
                 node.outputs.begin() + static_cast<std::ptrdiff_t>(signature.num_results));
    if (signature.out_buffer) pool_.push_back(node.outputs.back());
    if (pick(0, 3) == 0) node.location = fmt::format("layers.{}", program_.nodes.size());
    const ValueId first = node.outputs[0];
    program_.nodes.push_back(std::move(node));
    return first;
  }
  [[nodiscard]] OpCall call_at(const Node& node, size_t point) const {
    return call_of(program_, node, kPoints[point]);
  }
  [[nodiscard]] std::vector<Tensor> operands(const Node& node, size_t point) const {
    std::vector<Tensor> found;
    for (ValueId id : node.inputs)
      found.push_back(id == kNoValue ? Tensor{} : samples_[index_of(id)][point]);
    return found;
  }

  // NOLINTNEXTLINE(readability-function-size): a table of steps
  void add_step() {
    const ValueId x = pick_value();
    switch (pick(0, 20)) {
      case 0:
        add(OpCode::rms_norm,
            {.epsilon = pick(0, 1) == 0 ? 1e-5F : 1e-6F},
            {x, parameter({shape(x)[-1]})});
        return;
      case 1:
        (void)add_sum(x);
        return;
      case 2:
        add_unary_op(x);
        return;
      case 3:
        (void)add_linear(x, pick_width());
        return;
      case 4:
        add_adapter(x);
        return;
      case 5:
        // The indices must be token indices.
        if (rows(x) == SymInt(Symbol::num_tokens)) add_rows_of_requests(x);
        return;
      case 6:
        add_slice(x);
        return;
      case 7:
        add(OpCode::unflatten, {.length = pick(1, 4)}, {x});
        return;
      case 8:
        add(OpCode::flatten, {}, {x});
        return;
      case 9:
        add_lm_head(x);
        return;
      case 10:
        add_normed_sum(x);
        return;
      case 11:
        add(OpCode::fused_add_rms_norm,
            {.epsilon = 1e-6F},
            {x, alike(x), parameter({shape(x)[-1]})});
        return;
      case 12:
        if (options_.fused) add_quantized(x);
        return;
      case 13:
        if (options_.fused) add_fused_linear(x);
        return;
      case 14:
        if (options_.collectives) add_collective(x);
        return;
      case 15:
        add_norm_or_scale(x);
        return;
      case 16:
        add_experts(x);
        return;
      default:
        add_attention_layer(x);
    }
  }
  // Adds an op that takes only activations and at most a function. A new op gets into random
  // programs by its row in the table of ops.
  void add_unary_op(ValueId x) {
    std::vector<std::pair<OpCode, OpFunction>> unary;
    for (OpCode op : all_ops()) {
      const OpRule& rule = definition_of(op).rule;
      if (rule.operands.size != 1 || is_view(op)) continue;
      if (rule.attributes.size == 0) unary.emplace_back(op, OpFunction::none);
      for (size_t i = 1; rule.attributes.size == 1 && i < std::size(kFunctionNames); ++i) {
        if (((rule.functions >> i) & 1U) != 0) unary.emplace_back(op, static_cast<OpFunction>(i));
      }
    }
    const int last = static_cast<int>(unary.size()) - 1;
    const auto [op, function] = unary[static_cast<size_t>(pick(0, last))];
    add(op, {.function = function}, {x});
  }
  void add_rows_of_requests(ValueId x) {
    if (pick(0, 9) > 0) return add_gather(x);
    // Seldom: a pass looks for gather_rows.
    constexpr std::array kFunctions = {OpFunction::last, OpFunction::cls, OpFunction::mean};
    const OpFunction function = kFunctions.at(static_cast<size_t>(pick(0, 2)));
    add(OpCode::pool_rows, {.function = function}, {x, logits_indices_, num_logits_});
  }
  // Often after one norm, and seldom after two, because a pass moves norms to after the gather.
  void add_gather(ValueId x) {
    std::optional<ValueId> rows = x;
    for (int norms = pick(0, 5) / 2; norms > 0 && rows; --norms) {
      rows = add(OpCode::rms_norm, {.epsilon = 1e-6F}, {*rows, parameter({shape(*rows)[-1]})});
    }
    if (rows) add(OpCode::gather_rows, {}, {*rows, logits_indices_});
  }
  void add_norm_or_scale(ValueId x) {
    const auto weight = [&] { return parameter({shape(x)[-1]}); };
    switch (pick(0, 5)) {
      case 0:
        add(OpCode::gemma_rms_norm, {.epsilon = 1e-6F}, {x, weight()});
        return;
      case 1:
        add(OpCode::layer_norm,
            {.epsilon = 1e-5F},
            {x, weight(), pick(0, 1) ? weight() : kNoValue});
        return;
      case 2:
        add(OpCode::scale, {.scale = 0.375F}, {x});
        return;
      case 3:
        add(OpCode::swigluoai_and_mul, {.limit = 7.0F}, {x});
        return;
      case 4:
        add(OpCode::clamp, {.least = -0.25F, .limit = 0.5F}, {x});
        return;
      default:
        add(OpCode::soft_cap, {.soft_cap = 3.0F}, {x});
    }
  }
  // Adds the choice of two of four experts for each row.
  std::optional<ValueId> add_routes(ValueId logits) {
    constexpr std::array kByLogits = {
        OpFunction::softmax_of_all, OpFunction::softmax_of_chosen, OpFunction::ones};
    constexpr std::array kByScores = {OpFunction::softmax,
                                      OpFunction::normalized_softmax,
                                      OpFunction::sigmoid,
                                      OpFunction::normalized_sigmoid};
    const auto draw = [&](const auto& functions) {
      return functions.at(static_cast<size_t>(pick(0, static_cast<int>(functions.size()) - 1)));
    };
    NodeAttributes choice = {.function = draw(kByLogits), .length = 2, .scale = 1.5F};
    if (pick(0, 1) == 0) return add(OpCode::select_experts, choice, {logits, kNoValue});
    choice.function = draw(kByScores);
    choice.groups = 2;
    choice.top_groups = 1;
    const ValueId bias =
        pick(0, 1) == 0 ? kNoValue : sampled(program_.add_parameter({DType::f32, {4}}));
    return add(OpCode::select_experts, choice, {logits, bias});
  }
  void add_experts(ValueId x) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return;
    const int64_t width = shape(x)[1];
    const auto linear = [&](int64_t columns) {
      return *add(OpCode::linear, {}, {x, parameter({columns, width}), kNoValue});
    };
    ValueId weights = *add_routes(linear(4));
    ValueId experts = program_.nodes.back().outputs[1];
    std::erase(pool_, experts);  // integers are not operands of other ops
    int64_t num_experts = 4;
    if (pick(0, 1) == 1) {
      weights = *add(OpCode::scale_experts, {}, {weights, experts, parameter({num_experts})});
    }
    if (pick(0, 1) == 1) {  // this rank has two of the four experts
      num_experts = 2;
      weights = *add(OpCode::local_experts, {.begin = 1, .length = 2}, {weights, experts});
      experts = program_.nodes.back().outputs[1];
      std::erase(pool_, experts);
    }
    const ValueId up = *add(OpCode::expert_linear,
                            {},
                            {x,
                             parameter({num_experts, 16, width}),
                             pick(0, 1) ? parameter({num_experts, 16}) : kNoValue,
                             experts});
    const ValueId down = *add(
        OpCode::expert_linear, {}, {up, parameter({num_experts, width, 16}), kNoValue, experts});
    const ValueId mixed = *add(OpCode::combine_experts, {}, {down, weights});
    add(OpCode::sigmoid_gate, {}, {mixed, linear(1)});
  }
  // Adds a product, and the term that one of kVocab adapters of rank 4 adds for each token.
  void add_adapter(ValueId x) {
    if (rows(x) != SymInt(Symbol::num_tokens)) return;
    const std::optional<ValueId> product = add_linear(x, pick_width());
    if (!product) return;
    const ValueId shrunk =
        *add(OpCode::lora_shrink, {}, {x, parameter({kVocab, 4, shape(x)[1]}), ids_});
    // There is only one module, so any end of the module is valid.
    add(OpCode::lora_expand,
        {},
        {*product, shrunk, parameter({kVocab, 4, shape(*product)[1]}), num_logits_, ids_});
  }
  DType pick_eight_bits() { return pick(0, 1) == 0 ? DType::i8 : DType::f8e4m3; }
  void add_quantized(ValueId x) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return;
    const NodeAttributes dtype{.dtype = pick_eight_bits()};
    const NodeAttributes norm{.epsilon = 1e-6F, .dtype = dtype.dtype};
    const ValueId weight = parameter({shape(x)[1]});
    switch (pick(0, 4)) {
      case 0:
        add(OpCode::quantize_static, dtype, {x, one_scale()});
        return;
      case 1:
        add(OpCode::rms_norm_quant, norm, {x, weight});
        return;
      case 2:
        add(OpCode::fused_add_rms_norm_quant, norm, {x, alike(x), weight});
        return;
      case 3:
        add(OpCode::silu_and_mul_quant, dtype, {x});
        return;
      default:
        break;
    }
    const std::optional<ValueId> q = add(OpCode::quantize_per_token, dtype, {x});
    const ValueId scale = program_.nodes.back().outputs[1];
    const ValueId eight = sampled(program_.add_parameter({dtype.dtype, {24, shape(x)[1]}}));
    const ValueId scales = sampled(program_.add_parameter({DType::f32, {24}}));
    add(OpCode::scaled_linear, {.dtype = options_.dtype}, {*q, scale, eight, scales, kNoValue});
  }
  ValueId one_scale() { return sampled(program_.add_parameter({DType::f32, {1}})); }
  void add_fused_linear(ValueId x) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return;
    const int64_t width = shape(x)[1];
    switch (pick(0, 3)) {
      case 0:
        add(OpCode::linear_silu_and_mul,
            {.epsilon = 1e-6F},
            {x, parameter({32, width}), kNoValue, kNoValue, parameter({width})});
        return;
      case 1:
        add(OpCode::linear_silu_and_mul, {}, {x, parameter({32, width}), parameter({32})});
        return;
      default:
        add(OpCode::linear_add, {}, {x, parameter({width, width}), kNoValue, alike(x)});
    }
  }
  void add_collective(ValueId x) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return;
    const ValueId weight = parameter({shape(x)[1]});
    switch (pick(0, 3)) {
      case 0: {
        const ValueId sum = *add(OpCode::all_reduce, {.ranks = 2}, {x});
        if (pick(0, 1) == 0) add(OpCode::rms_norm, {.epsilon = 1e-6F}, {sum, weight});
        return;
      }
      case 1:
        // The number of ranks divides these rows for every batch.
        if (add(OpCode::all_gather, {.ranks = 2}, {x})) {
          add(OpCode::reduce_scatter, {.ranks = 2}, {program_.nodes.back().outputs[0]});
        }
        return;
      case 2:
        add(OpCode::fused_all_reduce_add_rms_norm,
            {.epsilon = 1e-6F, .ranks = 2},
            {x, alike(x), weight});
        return;
      default:
        if (add(OpCode::all_gather_linear,
                {.ranks = 2},
                {x, parameter({16, shape(x)[1]}), kNoValue})) {
          add(OpCode::linear_reduce_scatter,
              {.ranks = 2},
              {program_.nodes.back().outputs[0], parameter({16, 16}), kNoValue});
        }
    }
  }
  // Returns a value of the same type.
  ValueId alike(ValueId x) {
    std::vector<ValueId> same;
    std::copy_if(pool_.begin(), pool_.end(), std::back_inserter(same), [&](ValueId id) {
      return program_.type(id) == program_.type(x);
    });
    return same[static_cast<size_t>(pick(0, static_cast<int>(same.size()) - 1))];
  }
  std::optional<ValueId> add_sum(ValueId x) { return add(OpCode::add, {}, {x, alike(x)}); }
  void add_normed_sum(ValueId x) {
    const std::optional<ValueId> sum = add_sum(x);
    if (sum) add(OpCode::rms_norm, {.epsilon = 1e-6F}, {*sum, parameter({shape(*sum)[-1]})});
  }
  std::optional<ValueId> add_linear(ValueId x, int64_t width) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return std::nullopt;
    const ValueId weight = parameter({width, shape(x)[1]});
    return add(OpCode::linear, {}, {x, weight, pick(0, 1) == 0 ? kNoValue : parameter({width})});
  }
  void add_lm_head(ValueId x) {
    if (shape(x).rank() != 2 || program_.type(x).dtype != options_.dtype) return;
    const ValueId weight = parameter({kVocab, shape(x)[1]});
    if (options_.fused && pick(0, 3) == 0) {
      add(OpCode::lm_head,
          {.epsilon = 1e-6F},
          {x, weight, num_logits_, kNoValue, parameter({shape(x)[1]})});
      return;
    }
    const auto logits = add(OpCode::lm_head, {}, {x, weight, num_logits_});
    // Adds a collective over two ranks, where the last column of logits is padding.
    if (options_.collectives && logits && pick(0, 1) == 0) {
      add(OpCode::gather_columns, {.length = 2 * kVocab - 1, .ranks = 2}, {*logits, num_logits_});
    }
  }
  void add_slice(ValueId x) {
    const int dim = pick(0, shape(x).rank() - 1);
    if (dim == 0) {  // every batch has at least one row
      add(OpCode::slice,
          {.dim = 0, .begin = 0, .length = pick(0, 1) == 0 ? SymInt(1) : rows(x)},
          {x});
    } else if (shape(x)[dim] >= 2) {
      const int64_t half = shape(x)[dim] / 2;
      add(OpCode::slice, {.dim = dim, .begin = pick(0, 1) * half, .length = half}, {x});
    }
  }
  void add_attention_layer(ValueId x) {
    if (shape(x).rank() != 2 || rows(x) != SymInt(Symbol::num_tokens)) return;
    if (options_.fused && pick(0, 3) == 0) {
      add_fused_attention(x);
      return;
    }
    if (pick(0, 3) == 0) {
      add_latent_attention(x);
      return;
    }
    if (pick(0, 3) == 0) {
      add_recurrent_layer(x);
      return;
    }
    const std::optional<ValueId> qkv = add_linear(x, int64_t{4} * 16);
    if (!qkv) return;
    ValueId q = heads_of(*qkv, 0, 2);
    ValueId k = heads_of(*qkv, 2, 1);
    const ValueId v = heads_of(*qkv, 3, 1);
    if (pick(0, 1) == 0) {
      const ValueId table = sampled(program_.add_parameter({DType::f32, {kMaxPosition, 16}}));
      q = *add(OpCode::rope, {}, {q, k, positions_, table});
      k = program_.nodes.back().outputs[1];
    }
    const size_t pair = pick_state_pair();
    if (pick(0, 3) != 0) {
      add(OpCode::kv_write, {}, {k, v, current(pair), current(pair + 1), slots_});
    }
    if (pick(0, 3) == 0) return;
    const ValueId out = add_empty_like(q);
    const int64_t window = pick(0, 3) == 0 ? 5 : 0;
    std::vector<ValueId> operands = {
        q, current(pair), current(pair + 1), query_start_loc_, seq_lens_, block_table_};
    switch (pick(0, 6)) {
      case 0:
        operands.push_back(parameter({2}));
        operands.push_back(out);
        add(OpCode::attention_with_sinks, {.scale = 0.25F, .sliding_window = window}, operands);
        return;
      case 1:
        operands.push_back(out);
        add(OpCode::encoder_attention, {.scale = 0.25F}, operands);
        return;
      case 2:
        operands.push_back(sampled(program_.add_parameter({DType::f32, {2, kMaxPosition}})));
        operands.push_back(out);
        add(OpCode::attention_with_biases, {.scale = 0.25F, .sliding_window = window}, operands);
        return;
      default:
        operands.push_back(out);
        add(OpCode::attention,
            {.scale = 0.25F,
             .sliding_window = window,
             .chunk_size = window == 0 ? pick(0, 1) * 4 : 0,
             .soft_cap = pick(0, 3) == 0 ? 2.0F : 0.0F},
            operands);
    }
  }
  // Does not use add(): no attribute gives this type, and only attention may use the value.
  ValueId add_empty_like(ValueId like) {
    const ValueId out = sampled(program_.add_value(program_.type(like)));
    program_.nodes.push_back({.op = OpCode::empty, .outputs = {out}});
    return out;
  }
  // Adds a convolution, then four heads of four values with states of three elements, then the
  // gates that follow such layers. The blocks of requests serve as their slots.
  void add_recurrent_layer(ValueId x) {
    if (program_.type(x).dtype != options_.dtype) return;
    const auto table = [&](program::SymShape shape) {
      return sampled(program_.add_parameter({DType::f32, shape}));
    };
    const auto state = [&](program::SymShape shape) {
      return current(add_state({DType::f32, shape}));
    };
    const bool is_gated = pick(0, 1) == 0;
    const ValueId inputs = *add_linear(x, is_gated ? 48 : 16);
    const ValueId convolved_out = add_empty_like(is_gated ? *add_linear(x, 16) : inputs);
    add(is_gated ? OpCode::short_conv : OpCode::causal_conv1d,
        {},
        {inputs,
         parameter({16, 1, 4}),
         pick(0, 1) == 0 ? parameter({16}) : kNoValue,
         state({kNumBlocks, 3, 16}),
         block_table_,
         query_start_loc_,
         seq_lens_,
         convolved_out});
    const ValueId values = program_.nodes.back().outputs.back();
    const ValueId out = add_empty_like(values);
    if (pick(0, 1) == 0) {
      add(OpCode::selective_state_update,
          {},
          {values,
           *add_linear(x, 4),
           *add_linear(x, 2 * 3),
           *add_linear(x, 2 * 3),
           pick(0, 1) == 0 ? table({4}) : table({4, 3}),
           table({4}),
           table({4}),
           state({kNumBlocks, 4, 4, 3}),
           block_table_,
           query_start_loc_,
           seq_lens_,
           out});
    } else {
      const ValueId keys = *add_linear(x, 2 * 3);
      const int64_t steps = pick(0, 1) == 0 ? 4 : 4 * 3;
      add(OpCode::gated_delta_rule,
          {.length = pick(1, 2)},
          {keys,
           *add_linear(x, 2 * 3),
           values,
           *add_linear(x, 4),
           *add_linear(x, steps),
           table({4}),
           table({steps}),
           state({kNumBlocks, 4, 3, 4}),
           block_table_,
           query_start_loc_,
           seq_lens_,
           out});
    }
    const ValueId scanned = program_.nodes.back().outputs.back();
    const ValueId gated = *add(OpCode::mul_gate,
                               {.function = pick_one(OpFunction::silu, OpFunction::sigmoid)},
                               {scanned, *add_linear(x, 16)});
    add(OpCode::group_norm,
        {.function = pick_one(OpFunction::rms_norm, OpFunction::layer_norm),
         .epsilon = 1e-5F,
         .groups = 2},
        {gated, parameter({16})});
  }
  // Two heads with a latent of 12 and a rotated part of 4 elements. A key cache of one head with 16
  // elements serves as the latent cache.
  void add_latent_attention(ValueId x) {
    if (program_.type(x).dtype != options_.dtype) return;
    const auto part = [&](int64_t heads, int64_t size) {
      return *add(OpCode::unflatten, {.length = heads}, {*add_linear(x, heads * size)});
    };
    const size_t pair = pick_state_pair();
    const ValueId latent = *add_linear(x, 12);
    add(OpCode::concat_and_cache_mla, {}, {latent, part(1, 4), current(pair), slots_});
    const ValueId absorbed = *add(OpCode::head_linear, {}, {part(2, 8), parameter({2, 12, 8})});
    const ValueId q = *add(OpCode::concat, {}, {absorbed, part(2, 4)});
    const ValueId out = add_empty_like(absorbed);
    add(OpCode::mla_attention,
        {.scale = 0.25F},
        {q, current(pair), query_start_loc_, seq_lens_, block_table_, out});
  }
  // Writes two heads of q and one head of k and of v, with 16 elements each, to the cache with one
  // op.
  void add_fused_attention(ValueId x) {
    if (program_.type(x).dtype != options_.dtype) return;
    const size_t pair = pick_state_pair();
    const ValueId table = sampled(program_.add_parameter({DType::f32, {kMaxPosition, 16}}));
    const bool has_norm = pick(0, 1) == 0;
    const ValueId norm = has_norm ? parameter({16}) : kNoValue;
    const ValueId weight = parameter({64, shape(x)[1]});
    std::optional<ValueId> q;
    if (pick(0, 1) == 0) {
      std::vector<ValueId> operands = {x,
                                       weight,
                                       kNoValue,
                                       positions_,
                                       table,
                                       current(pair),
                                       current(pair + 1),
                                       slots_,
                                       norm,
                                       norm};
      const bool is_normed = pick(0, 1) == 0;
      if (is_normed) operands.push_back(parameter({shape(x)[1]}));
      q = add(OpCode::linear_rope_kv_write, {.epsilon = 1e-6F, .length = 2}, operands);
    } else {
      const ValueId qkv = *add(OpCode::linear, {}, {x, weight, kNoValue});
      q = add(OpCode::rope_kv_write,
              {.epsilon = 1e-6F},
              {heads_of(qkv, 0, 2),
               heads_of(qkv, 2, 1),
               heads_of(qkv, 3, 1),
               positions_,
               table,
               current(pair),
               current(pair + 1),
               slots_,
               norm,
               norm});
    }
    if (pick(0, 1) == 0) return;
    const ValueId out = sampled(program_.add_value({pick_eight_bits(), program_.type(*q).shape}));
    program_.nodes.push_back({.op = OpCode::empty, .outputs = {out}});
    const ValueId scale = one_scale();
    add(OpCode::attention_quant,
        {.scale = 0.25F},
        {*q,
         current(pair),
         current(pair + 1),
         query_start_loc_,
         seq_lens_,
         block_table_,
         scale,
         out});
  }
  ValueId heads_of(ValueId qkv, int64_t first, int64_t count) {
    const ValueId part =
        *add(OpCode::slice, {.dim = 1, .begin = first * 16, .length = count * 16}, {qkv});
    return *add(OpCode::unflatten, {.length = count}, {part});
  }
  size_t pick_state_pair() {
    const auto num_pairs = static_cast<int>(pairs_.size());
    const int pair = pick(0, std::min(num_pairs, 2));
    if (pair == num_pairs) {
      const ValueType type{options_.dtype, {kNumBlocks, 1, kBlockSize, 16}};
      pairs_.push_back(add_state(type));
      (void)add_state(type);
    }
    return pairs_[static_cast<size_t>(pair)];
  }
  size_t add_state(const ValueType& type) {
    (void)sampled(program_.add_state(type));
    return program_.states.size() - 1;
  }
  ValueId current(size_t slot) { return program_.final_states[slot]; }

  std::mt19937 random_;
  RandomProgramOptions options_;
  FingerprintExecutor executor_;
  Program program_;
  std::vector<Samples> samples_;  // by value
  std::vector<ValueId> pool_;     // activations
  std::vector<size_t> pairs_;     // the first state of each pair of a key cache and a value cache
  ValueId ids_{}, positions_{}, slots_{}, query_start_loc_{}, seq_lens_{}, block_table_{};
  ValueId logits_indices_{}, num_logits_{};
};

}  // namespace

Tensor FingerprintExecutor::make(const TensorType& type, uint64_t seed) {
  cells_.push_back(seed);
  return Tensor::borrow(type, &cells_.back(), *this);
}

void FingerprintExecutor::execute(const OpCall& call,
                                  std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
  ++num_ops_;
  std::array<TensorType, kMaxOpOutputs> types;
  const size_t num_outputs = infer_output_types(call, inputs, types);
  ASSERT_EQ(outputs.size(), num_outputs);
  Fingerprint print = fingerprint_of(call, inputs);
  for (size_t i = 0; i < num_outputs; ++i) {
    print.add(i);
    outputs[i] = make(types[i], print.value());
    if (is_view(call.code)) {
      outputs[i] = outputs[i].with_layout(types[i].shape, make_view(call, inputs[0]).strides(), 0);
    }
  }
  const OpSignature signature = signature_of(call);
  const auto overwrite = [&](size_t operand) {
    print.add(operand);
    *inputs[operand].data_as<uint64_t>() = print.value();
  };
  if (signature.writes_states)
    std::for_each(signature.states.begin(), signature.states.end(), overwrite);
  if (signature.out_buffer) overwrite(*signature.out_buffer);
}

std::vector<uint64_t> fingerprints(const Program& program, const SymbolValues& values) {
  return fingerprints_of(
      program, values, [&](const auto& inputs, const auto& slots, auto& executor) {
        return Interpreter(program).run(inputs, slots, values, executor);
      });
}

std::vector<uint64_t> split_fingerprints(const Program& program,
                                         std::span<const OpCode> splitting_ops,
                                         const SymbolValues& values) {
  return fingerprints_of(
      program, values, [&](const auto& inputs, const auto& slots, auto& executor) {
        const SplitProgram pieces =
            split(program, std::vector<OpCode>(splitting_ops.begin(), splitting_ops.end()));
        return SplitInterpreter(pieces).run(inputs, slots, values, executor);
      });
}

Program random_program(uint32_t seed, const RandomProgramOptions& options) {
  return RandomBuilder(seed, options).build();
}

Program program_of(const std::string& text) {
  Program program = parse(text);
  const std::optional<std::string> violation = verify(program);
  EXPECT_EQ(violation.value_or(""), "");
  return program;
}

}  // namespace reprise::program
