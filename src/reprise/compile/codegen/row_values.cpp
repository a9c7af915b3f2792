#include "reprise/compile/codegen/row_values.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::SymInt;
using program::ValueId;
using program::ValueType;

/// Thrown to stop the analysis of a body. It is caught in this file.
struct Refusal {
  std::string reason;
};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Refusal{fmt::format(format, std::forward<Args>(args)...)};
}

int64_t constant(const SymInt& size) {
  if (!size.is_constant()) refuse("size {} inside a row is not constant", size.to_string());
  return size.constant();
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

class BodyReader {
 public:
  explicit BodyReader(const Program& body) : body_(body), refs_(body.values.size()) {}

  RowValues read() {
    check_interface();
    for (size_t i = 0; i < body_.inputs.size(); ++i) add_rows_input(i);
    for (const Node& node : body_.nodes) add_node(node);
    for (const ValueId output : body_.outputs) result_.outputs.push_back(output_value(output));
    result_.num_inputs = body_.inputs.size();
    return std::move(result_);
  }

 private:
  void check_interface() {
    if (!body_.parameters.empty() || !body_.states.empty()) {
      refuse("a row group has inputs only, no parameters and no states");
    }
    if (body_.outputs.empty()) refuse("no outputs");
    const size_t operands = body_.inputs.size() + body_.outputs.size();
    if (operands > kernels::kMaxRowGroupOperands) refuse("{} inputs and outputs", operands);
    if (body_.nodes.size() > kMaxRowGroupNodes) refuse("{} ops", body_.nodes.size());
    for (const ValueId output : body_.outputs) {
      const ValueType& type = body_.type(output);
      if (type.shape.rank() < 2) refuse("an output {}", type.to_string());
      if (domain_ && *domain_ != type.shape[0]) {
        refuse("the outputs have different numbers of rows, {} and {}",
               domain_->to_string(),
               type.shape[0].to_string());
      }
      domain_ = type.shape[0];
    }
  }

  // ---- values

  size_t add_value(RowValue value) {
    if (!is_float(value.dtype)) refuse("values of type {}", program::short_name(value.dtype));
    if (value.width <= 0 || value.heads <= 0) refuse("rows without elements");
    result_.values.push_back(std::move(value));
    return result_.values.size() - 1;
  }

  static std::pair<int64_t, int64_t> heads_and_width(const ValueType& type) {
    if (type.shape.rank() == 2) return {1, constant(type.shape[1])};
    if (type.shape.rank() == 3) return {constant(type.shape[1]), constant(type.shape[2])};
    refuse("rows of rank {}: {}", type.shape.rank() - 1, type.to_string());
  }

  void add_rows_input(size_t operand) {
    const ValueId id = body_.inputs[operand].value;
    const ValueType& type = body_.type(id);
    if (body_.inputs[operand].is_buffer) refuse("a buffer as input");
    // Weights, tables and indices are not rows; the ops that read them add values for them.
    if (type.shape.rank() < 2 || type.shape.rank() > 3 || type.shape[0] != *domain_) return;
    if (!is_float(type.dtype)) return;
    const auto [heads, width] = heads_and_width(type);
    const size_t value = add_value({.kind = RowValueKind::rows,
                                    .dtype = type.dtype,
                                    .heads = heads,
                                    .width = width,
                                    .operand = operand});
    RowRef ref = whole(result_.values, value);
    if (type.shape.rank() == 3) ref.head_stride.reset();
    set_ref(id, ref);
  }

  size_t input_of(ValueId id, const char* what) const {
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      if (body_.inputs[i].value == id) return i;
    }
    refuse("{} that is not an input", what);
  }

  RowRef weight(ValueId id) {
    const ValueType& type = body_.type(id);
    return whole(result_.values,
                 add_value({.kind = RowValueKind::weight,
                            .dtype = type.dtype,
                            .width = constant(type.shape[0]),
                            .operand = input_of(id, "a weight")}));
  }

  RowRef table_row(RowValueKind kind, ValueId table, ValueId indices) {
    if (body_.type(indices).shape[0] != *domain_) refuse("an index that does not choose a row");
    const ValueType& type = body_.type(table);
    return whole(result_.values,
                 add_value({.kind = kind,
                            .dtype = type.dtype,
                            .width = constant(type.shape[1]),
                            .operand = input_of(table, "a table"),
                            .indices = input_of(indices, "an index")}));
  }

  RowRef compute(RowValueKind kind,
                 const ValueType& type,
                 std::vector<RowRef> sources,
                 float epsilon = 0) {
    const auto [heads, width] = heads_and_width(type);
    return whole(result_.values,
                 add_value({.kind = kind,
                            .dtype = type.dtype,
                            .heads = heads,
                            .width = width,
                            .sources = std::move(sources),
                            .epsilon = epsilon}));
  }

  // ---- ops

  void set_ref(ValueId id, const RowRef& ref) { refs_[program::index_of(id)] = ref; }
  const RowRef& ref(ValueId id) const {
    const auto& found = refs_[program::index_of(id)];
    if (!found) refuse("{} is not a row of this group", body_.type(id).to_string());
    return *found;
  }

  void add_node(const Node& node) {
    const auto in = [&](size_t i) { return node.inputs.at(i); };
    const auto row = [&](size_t i) { return ref(in(i)); };
    const auto type = [&](size_t i) -> const ValueType& { return body_.type(node.outputs.at(i)); };
    const float epsilon = node.attributes.epsilon;
    switch (node.op) {
      case OpCode::slice:
        return set_ref(node.outputs[0], slice(node, row(0)));
      case OpCode::unflatten:
        return set_ref(node.outputs[0], unflatten(type(0), row(0)));
      case OpCode::flatten:
        return set_ref(node.outputs[0], flatten(row(0)));
      case OpCode::embedding:
        return set_ref(node.outputs[0], table_row(RowValueKind::looked_up, in(1), in(0)));
      case OpCode::gather_rows:
        return set_ref(node.outputs[0], table_row(RowValueKind::looked_up, in(0), in(1)));
      case OpCode::add:
        return set_ref(node.outputs[0], compute(RowValueKind::add, type(0), {row(0), row(1)}));
      case OpCode::silu_and_mul:
        return set_ref(node.outputs[0], compute(RowValueKind::silu_and_mul, type(0), {row(0)}));
      case OpCode::rms_norm:
        return set_ref(node.outputs[0],
                       compute(RowValueKind::rms_norm, type(0), {row(0), weight(in(1))}, epsilon));
      case OpCode::fused_add_rms_norm: {
        const RowRef sum = compute(RowValueKind::add, type(1), {row(1), row(0)});
        set_ref(node.outputs[1], sum);
        return set_ref(node.outputs[0],
                       compute(RowValueKind::rms_norm, type(0), {sum, weight(in(2))}, epsilon));
      }
      case OpCode::rope: {
        const RowRef table = table_row(RowValueKind::clamped, in(3), in(2));
        set_ref(node.outputs[0], compute(RowValueKind::rope, type(0), {row(0), table}));
        return set_ref(node.outputs[1], compute(RowValueKind::rope, type(1), {row(1), table}));
      }
      default:
        refuse("op {}", op_name(node.op));
    }
  }

  RowRef slice(const Node& node, RowRef x) const {
    const int dim = node.attributes.dim;
    const int last = body_.type(node.outputs[0]).shape.rank() - 1;
    if (dim == 0) refuse("a slice of rows");
    const int64_t begin = constant(node.attributes.begin);
    const int64_t length = constant(node.attributes.length);
    if (dim == last) {
      x.begin += begin;
      x.width = length;
    } else {
      x.head_begin += begin;
      x.heads = length;
    }
    return x;
  }
  RowRef unflatten(const ValueType& type, RowRef x) const {
    std::tie(x.heads, x.width) = heads_and_width(type);
    x.head_stride = x.width;
    return x;
  }
  // flatten requires that heads are adjacent.
  static RowRef flatten(RowRef x) {
    x.begin += x.head_begin * x.head_stride.value_or(x.width);
    x.head_begin = 0;
    x.width *= x.heads;
    x.heads = 1;
    x.head_stride = x.width;
    return x;
  }

  size_t output_value(ValueId id) {
    const RowRef& x = ref(id);
    const RowValue& value = result_.values[x.value];
    const bool is_whole = x.head_begin == 0 && x.begin == 0 &&
                          x.heads * x.width == value.heads * value.width &&
                          (x.heads == 1 || x.head_stride == x.width);
    if (!is_memory(value.kind) && is_whole) return x.value;
    return compute(RowValueKind::copy, body_.type(id), {x}).value;
  }

  const Program& body_;
  std::optional<SymInt> domain_;
  std::vector<std::optional<RowRef>> refs_;  // by value of the body
  RowValues result_;
};

}  // namespace

RowRef whole(const std::vector<RowValue>& values, size_t value) {
  return {.value = value,
          .heads = values[value].heads,
          .width = values[value].width,
          .head_stride = values[value].width};
}

std::variant<RowValues, std::string> read_row_values(const Program& body) {
  try {
    return BodyReader(body).read();
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
}

}  // namespace reprise::compile
