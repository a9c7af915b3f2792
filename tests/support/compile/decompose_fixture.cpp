#include "tests/support/compile/decompose_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "reprise/program/interpreter.h"
#include "reprise/program/verify.h"
#include "reprise/tensor/op_table.h"
#include "reprise/tensor/view.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::NodeAttributes;
using program::Program;
using program::SymbolValues;
using program::SymInt;
using program::SymShape;
using program::ValueId;

class Decomposer {
 public:
  explicit Decomposer(const Program& program) : from_(program), to_(program) {
    to_.nodes.clear();
    to_.groups.clear();
  }

  Program run() && {
    for (const Node& node : from_.nodes) add(node);
    return std::move(to_);
  }

 private:
  using Ids = std::vector<ValueId>;

  void emit(OpCode op, NodeAttributes attributes, Ids inputs, Ids outputs) {
    to_.nodes.push_back({op, attributes, std::move(inputs), std::move(outputs), location_});
    leave_out_last_operands(to_.nodes.back());
  }
  // Adds a new value with the type of another value.
  ValueId like(ValueId id) { return to_.add_value(to_.type(id)); }
  ValueId of(DType dtype, SymShape shape) { return to_.add_value({dtype, shape}); }
  struct Rows {
    ValueId x;
    ValueId scale;
  };
  // Adds the quantisation of rows that a product computes itself.
  Rows rows_of(const Node& node) {
    const ValueId x = node.inputs[0];
    const program::ValueType& weight = to_.type(node.inputs[1]);
    const ActivationForm form = activation_form(weight.layout.family);
    const SymShape shape = to_.type(x).shape;
    if (form == ActivationForm::elements || to_.type(x).dtype == DType::i8) {
      return {x, operand_of(node, "scale")};
    }
    if (form == ActivationForm::int8_rows) {
      const Rows rows = {of(DType::i8, shape), of(DType::f32, {shape[0]})};
      emit(OpCode::quantize_per_token, {.dtype = DType::i8}, {x}, {rows.x, rows.scale});
      return rows;
    }
    const Rows rows = {of(DType::i8, {shape[0], shape[1].constant() / 32 * 40}), kNoValue};
    emit(OpCode::quantize_blocks, {.dtype = DType::i8}, {x}, {rows.x});
    return rows;
  }
  // Adds the linear() that the fused node begins with.
  ValueId product(const Node& node) {
    const Rows rows = rows_of(node);
    const ValueId p = of(to_.type(node.inputs[1]).dtype,
                         {to_.type(node.inputs[0]).shape[0], to_.type(node.inputs[1]).shape[0]});
    emit(OpCode::linear, {}, {rows.x, node.inputs[1], node.inputs[2], rows.scale}, {p});
    return p;
  }
  // Returns an operand of the op; kNoValue if the operand is left out, or if the op has none of
  // that name.
  static ValueId operand_of(const Node& node, std::string_view name) {
    const OpRule& rule = definition_of(node.op).rule;
    for (size_t i = 0; i < rule.operands.size; ++i) {
      if (rule.operands[i].name == name) return node.inputs[i];
    }
    return kNoValue;
  }

  // NOLINTNEXTLINE(readability-function-size): a table of ops
  void add(const Node& node) {
    location_ = node.location;
    const Ids& in = node.inputs;
    const Ids& out = node.outputs;
    const NodeAttributes& has = node.attributes;
    if (operand_of(node, "norm") != kNoValue) {
      Node product = node;
      product.inputs[0] = like(in[0]);
      product.inputs.back() = kNoValue;
      emit(OpCode::rms_norm, {.epsilon = has.epsilon}, {in[0], in.back()}, {product.inputs[0]});
      if (node.op != OpCode::linear_rope_kv_write) product.attributes.epsilon = 0;
      add(product);
      return;
    }
    switch (node.op) {
      case OpCode::linear: {
        const Rows rows = rows_of(node);
        emit(OpCode::linear, {}, {rows.x, in[1], in[2], rows.scale}, out);
        return;
      }
      case OpCode::lm_head: {
        const Rows rows = rows_of(node);
        emit(OpCode::lm_head, {}, {rows.x, in[1], in[2], rows.scale, kNoValue}, out);
        return;
      }
      case OpCode::fused_add_rms_norm:
        emit(OpCode::add, {}, {in[1], in[0]}, {out[1]});
        emit(OpCode::rms_norm, {.epsilon = has.epsilon}, {out[1], in[2]}, {out[0]});
        return;
      case OpCode::linear_add:
        emit(OpCode::add, {}, {in[3], product(node)}, out);
        return;
      case OpCode::linear_silu_and_mul:
        emit(OpCode::silu_and_mul, {}, {product(node)}, out);
        return;
      case OpCode::rope_kv_write:
        add_rope(has, {in[0], in[1], in[2]}, {in.begin() + 3, in.end()}, out);
        return;
      case OpCode::linear_rope_kv_write:
        add_rope(has, heads_of(node), {in.begin() + 3, in.end()}, out);
        return;
      case OpCode::rms_norm_quant: {
        const ValueId norm = like(in[0]);
        emit(OpCode::rms_norm, {.epsilon = has.epsilon}, in, {norm});
        emit(OpCode::quantize_per_token, {.dtype = has.dtype}, {norm}, out);
        return;
      }
      case OpCode::fused_add_rms_norm_quant: {
        const ValueId norm = like(in[0]);
        emit(OpCode::add, {}, {in[1], in[0]}, {out[2]});
        emit(OpCode::rms_norm, {.epsilon = has.epsilon}, {out[2], in[2]}, {norm});
        emit(OpCode::quantize_per_token, {.dtype = has.dtype}, {norm}, {out[0], out[1]});
        return;
      }
      case OpCode::silu_and_mul_quant: {
        const ValueId act = of(to_.type(in[0]).dtype, to_.type(out[0]).shape);
        emit(OpCode::silu_and_mul, {}, in, {act});
        emit(OpCode::quantize_per_token, {.dtype = has.dtype}, {act}, out);
        return;
      }
      case OpCode::rms_norm_quantize_blocks: {
        const ValueId norm = like(in[0]);
        emit(OpCode::rms_norm, {.epsilon = has.epsilon}, in, {norm});
        emit(OpCode::quantize_blocks, {.dtype = has.dtype}, {norm}, out);
        return;
      }
      case OpCode::linear_silu_and_mul_quantize_blocks: {
        const ValueId p = product(node);
        const SymShape shape = to_.type(p).shape;
        const ValueId act = of(to_.type(p).dtype, {shape[0], shape[1].constant() / 2});
        emit(OpCode::silu_and_mul, {}, {p}, {act});
        emit(OpCode::quantize_blocks, {.dtype = has.dtype}, {act}, out);
        return;
      }
      case OpCode::attention_quant: {
        const ValueId memory = like(in[0]);
        const ValueId result = like(in[0]);
        emit(OpCode::empty, {}, {}, {memory});
        emit(OpCode::attention,
             {.scale = has.scale,
              .k_scale = has.k_scale,
              .v_scale = has.v_scale,
              .sliding_window = has.sliding_window,
              .chunk_size = has.chunk_size,
              .soft_cap = has.soft_cap},
             {in[0], in[1], in[2], in[3], in[4], in[5], memory},
             {result});
        emit(OpCode::quantize_static, {.dtype = to_.type(out[0]).dtype}, {result, in[6]}, out);
        return;
      }
      case OpCode::fused_all_reduce_add_rms_norm: {
        const ValueId reduced = in[1] == kNoValue ? out[1] : like(in[0]);
        emit(OpCode::all_reduce, {.ranks = has.ranks}, {in[0]}, {reduced});
        if (in[1] != kNoValue) emit(OpCode::add, {}, {in[1], reduced}, {out[1]});
        emit(OpCode::rms_norm, {.epsilon = has.epsilon}, {out[1], in[2]}, {out[0]});
        return;
      }
      case OpCode::linear_reduce_scatter:
        emit(OpCode::reduce_scatter, {.ranks = has.ranks}, {product(node)}, out);
        return;
      case OpCode::all_gather_linear: {
        const ValueId rows =
            of(to_.type(in[0]).dtype, {to_.type(out[0]).shape[0], to_.type(in[0]).shape[1]});
        emit(OpCode::all_gather, {.ranks = has.ranks}, {in[0]}, {rows});
        emit(OpCode::linear, {}, {rows, in[1], in[2]}, out);
        return;
      }
      case OpCode::row_group:
        add_group(from_.groups[has.group], node);
        return;
      default:
        to_.nodes.push_back(node);
    }
  }

  // Returns the heads of q, k and v in the product of a linear_rope_kv_write.
  Ids heads_of(const Node& node) {
    const SymShape cache = to_.type(node.inputs[5]).shape;
    const ValueId p = product(node);
    const SymInt rows = to_.type(p).shape[0];
    const DType dtype = to_.type(p).dtype;
    int64_t begin = 0;
    Ids heads;
    const SymInt head_dim = to_.type(node.inputs[4]).shape[1];
    for (const SymInt& count : {node.attributes.length, cache[1], cache[1]}) {
      const int64_t width = count.constant() * head_dim.constant();
      const ValueId part = of(dtype, {rows, width});
      heads.push_back(of(dtype, {rows, count, head_dim}));
      emit(OpCode::slice, {.dim = 1, .begin = begin, .length = width}, {p}, {part});
      emit(OpCode::unflatten, {.length = count}, {part}, {heads.back()});
      begin += width;
    }
    return heads;
  }
  // `rest`: positions, cos_sin, key_cache, value_cache, slot_mapping, q_norm, k_norm.
  void add_rope(const NodeAttributes& has, Ids heads, const Ids& rest, const Ids& out) {
    for (size_t i = 0; i < 2 && rest[5] != kNoValue; ++i) {
      const ValueId norm = like(heads[i]);
      emit(OpCode::rms_norm, {.epsilon = has.epsilon}, {heads[i], rest[5 + i]}, {norm});
      heads[i] = norm;
    }
    const ValueId k = like(heads[1]);
    emit(OpCode::rope, {}, {heads[0], heads[1], rest[0], rest[1]}, {out[0], k});
    emit(OpCode::kv_write,
         {.k_scale = has.k_scale, .v_scale = has.v_scale},
         {k, heads[2], rest[2], rest[3], rest[4]},
         {out[1], out[2]});
  }
  void add_group(const Program& group, const Node& node) {
    std::map<ValueId, ValueId> outer;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      outer[group.inputs[i].value] = node.inputs[i];
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) outer[group.outputs[i]] = node.outputs[i];
    for (Node inner : group.nodes) {
      for (ValueId& id : inner.inputs) {
        if (id != program::kNoValue) id = outer.at(id);  // an operand may be left out
      }
      for (ValueId& id : inner.outputs) {
        if (!outer.contains(id)) outer[id] = to_.add_value(group.type(id));
        id = outer[id];
      }
      add(inner);
    }
  }

  const Program& from_;
  Program to_;
  std::string location_;
};

class Hash {
 public:
  Hash& add(uint64_t value) {
    // The finaliser of SplitMix64.
    value_ = (value_ ^ value) + 0x9E3779B97F4A7C15ULL;
    value_ = (value_ ^ (value_ >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value_ = (value_ ^ (value_ >> 27)) * 0x94D049BB133111EBULL;
    value_ ^= value_ >> 31;
    return *this;
  }
  Hash& add(const Shape& shape) {
    for (int64_t size : shape.sizes()) add(static_cast<uint64_t>(size));
    return add(static_cast<uint64_t>(shape.rank()));
  }
  [[nodiscard]] uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_ = 0;
};

// The memory of a tensor. A view shows a part of another tensor's content.
struct Cell {
  uint64_t content = 0;
  int64_t num_elements = 0;
  int64_t offset = 0;  // of a view within its base
};

struct Term {
  uint64_t content = 0;
  TensorType type;
  bool is_defined = true;
};

class MeaningExecutor final : public OpExecutor {
 public:
  Tensor make(const TensorType& type, uint64_t content) {
    cells_.push_back({content, type.shape.num_elements(), 0});
    return Tensor::borrow(type, &cells_.back(), *this);
  }

  [[nodiscard]] static uint64_t content(const Tensor& tensor) {
    const Cell& cell = *tensor.data_as<Cell>();
    const bool is_whole =
        tensor.is_dense() && cell.offset == 0 && tensor.num_elements() == cell.num_elements;
    if (is_whole) return cell.content;
    return Hash()
        .add(cell.content)
        .add(static_cast<uint64_t>(cell.offset))
        .add(tensor.shape())
        .add(tensor.strides())
        .value();
  }

  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override {
    std::array<TensorType, kMaxOpOutputs> types;
    const size_t num_results = infer_output_types(call, inputs, types);
    if (is_view(call.code)) {
      outputs[0] = view(call, inputs[0], types[0]);
      return;
    }
    const program::OpSignature signature = program::signature_of(call);
    std::vector<Term> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      // An operand that is completely overwritten is not read.
      const bool is_read = inputs[i].defined() && signature.out_buffer != i;
      operands.push_back(is_read ? Term{content(inputs[i]), inputs[i].type()}
                                 : Term{.is_defined = false});
    }
    for (size_t i = 0; i < num_results; ++i) {
      outputs[i] = make(types[i], meaning(call, operands, i));
    }
    const auto overwrite = [&](size_t operand) {
      inputs[operand].data_as<Cell>()->content = meaning(call, operands, 100 + operand);
    };
    if (signature.writes_states) {
      std::for_each(signature.states.begin(), signature.states.end(), overwrite);
    }
    if (signature.out_buffer) overwrite(*signature.out_buffer);
  }

 private:
  struct Origin {
    OpCall call;
    std::vector<Term> operands;
  };

  Tensor view(const OpCall& call, const Tensor& x, const TensorType& type) {
    const Cell& seen = *x.data_as<Cell>();
    const int64_t offset =
        call.code == OpCode::slice ? call.attributes.begin * x.stride(call.attributes.dim) : 0;
    cells_.push_back({seen.content, seen.num_elements, seen.offset + offset});
    // Only the layout matters here, so any address will do.
    const Shape strides = make_view(call, x).strides();
    return Tensor::borrow(type, &cells_.back(), *this).with_layout(type.shape, strides, 0);
  }

  // Returns the fingerprint of a result.
  uint64_t meaning(const OpCall& call, std::vector<Term> operands, size_t result) {
    if (call.code == OpCode::gather_rows || call.code == OpCode::all_gather) {
      if (const std::optional<uint64_t> found = gather(call, operands)) return *found;
    }
    if (call.code == OpCode::add && operands[1].content < operands[0].content) {
      std::swap(operands[0], operands[1]);
    }
    if (call.code == OpCode::quantize_static) {
      operands[0].type.shape = {operands[0].type.shape.num_elements()};
    }
    Hash hash;
    hash.add(static_cast<uint64_t>(call.code)).add(result);
    const OpAttributes& has = call.attributes;
    hash.add(static_cast<uint64_t>(has.function));
    hash.add(static_cast<uint64_t>(has.type.dtype)).add(std::bit_cast<uint32_t>(has.epsilon));
    hash.add(static_cast<uint64_t>(has.length)).add(std::bit_cast<uint32_t>(has.scale));
    hash.add(std::bit_cast<uint32_t>(has.k_scale)).add(std::bit_cast<uint32_t>(has.v_scale));
    hash.add(static_cast<uint64_t>(has.sliding_window)).add(static_cast<uint64_t>(has.ranks));
    hash.add(std::bit_cast<uint32_t>(has.soft_cap)).add(static_cast<uint64_t>(has.chunk_size));
    hash.add(static_cast<uint64_t>(has.groups)).add(static_cast<uint64_t>(has.top_groups));
    hash.add(std::bit_cast<uint32_t>(has.least));
    hash.add(std::bit_cast<uint32_t>(has.limit));
    for (const Term& operand : operands) {
      if (!operand.is_defined) {
        hash.add(0);
        continue;
      }
      hash.add(operand.content).add(static_cast<uint64_t>(operand.type.dtype));
      hash.add(operand.type.shape);
    }
    if (call.code == OpCode::rms_norm || call.code == OpCode::add ||
        call.code == OpCode::reduce_scatter) {
      origins_.insert_or_assign(hash.value(), Origin{call, operands});
    }
    return hash.value();
  }

  // Norms and sums work row by row, so norms and sums of gathered rows equal the gathered rows of
  // norms and sums. A tensor that is scattered and gathered again is unchanged.
  std::optional<uint64_t> gather(const OpCall& call, const std::vector<Term>& operands) {
    const auto found = origins_.find(operands[0].content);
    if (found == origins_.end()) return std::nullopt;
    Origin origin = found->second;
    const bool is_choice = call.code == OpCode::gather_rows;
    if (origin.call.code == OpCode::reduce_scatter) {
      if (is_choice || origin.call.attributes.ranks != call.attributes.ranks) return std::nullopt;
      origin.call.code = OpCode::all_reduce;
      return meaning(origin.call, origin.operands, 0);
    }
    const size_t num_row_operands = origin.call.code == OpCode::add ? 2 : 1;
    for (size_t i = 0; i < num_row_operands; ++i) {
      Term& operand = origin.operands[i];
      if (operand.type.shape.rank() != 2) return std::nullopt;
      std::vector<Term> chosen = operands;
      chosen[0] = operand;
      operand.content = meaning(call, std::move(chosen), 0);
      operand.type.shape[0] =
          is_choice ? operands[1].type.shape[0] : operand.type.shape[0] * call.attributes.ranks;
    }
    return meaning(origin.call, origin.operands, 0);
  }

  std::deque<Cell> cells_;
  std::unordered_map<uint64_t, Origin> origins_;  // by content
};

}  // namespace

Program decomposed(const Program& program) {
  Program result = Decomposer(program).run();
  EXPECT_EQ(program::verify(result).value_or(""), "");
  return result;
}

std::vector<uint64_t> meaning_of(const Program& program, const SymbolValues& values) {
  const Program plain = decomposed(program);
  MeaningExecutor executor;
  uint64_t seed = 0;
  const auto make = [&](ValueId id) {
    return executor.make(plain.type(id).evaluate(values), Hash().add(++seed).value());
  };
  std::vector<Tensor> inputs;
  for (const program::ProgramInput& input : plain.inputs) inputs.push_back(make(input.value));
  program::SlotTensors slots;
  for (ValueId id : plain.parameters) slots.parameters.push_back(make(id));
  for (ValueId id : plain.states) slots.states.push_back(make(id));
  std::vector<uint64_t> found;
  program::Interpreter interpreter(plain);
  for (const Tensor& output : interpreter.run(inputs, slots, values, executor)) {
    found.push_back(MeaningExecutor::content(output));
  }
  for (const Tensor& state : slots.states) found.push_back(MeaningExecutor::content(state));
  return found;
}

}  // namespace reprise::compile
