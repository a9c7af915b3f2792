#include "reprise/program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/view.h"

namespace reprise::program {
namespace {

// The symbol values at which types are checked. Type rules compare sums and products of affine
// sizes. If two sizes agree at these points, which lie on no common line, they agree everywhere.
// The last point finds programs that do not fit a batch of one.
constexpr std::array kPoints = {SymbolValues{7, 3, 2, 19},
                                SymbolValues{1031, 5, 3, 23},
                                SymbolValues{131, 11, 13, 31},
                                SymbolValues{1, 1, 1, 1}};
// Larger than any tensor, and small enough that products do not overflow.
constexpr int64_t kMaxElements = int64_t{1} << 48;

/// Tensors need an executor to be defined. This executor runs nothing.
class NoExecutor final : public OpExecutor {
 public:
  void execute(const OpCall& call, std::span<const Tensor>, std::span<Tensor>) override {
    REPRISE_ASSERT(false, "{} is being checked, not run", op_name(call.code));
  }
};

// Checks the types of a program for one set of symbol values.
class TypeChecker {
 public:
  TypeChecker(const Program& program, const SymbolValues& point)
      : program_(program), point_(point), tensors_(program.values.size()) {}

  std::optional<std::string> check_sizes() {
    for (const Value& value : program_.values) {
      const Shape shape = value.type.shape.evaluate(point_);
      int64_t elements = 1;
      for (int64_t size : shape.sizes()) {
        if (size < 0) {
          return fmt::format(
              "{} has a negative size with {}", value.type.to_string(), point_.to_string());
        }
        if (__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements) ||
            elements > kMaxElements) {
          return fmt::format("{} is too large with {}", value.type.to_string(), point_.to_string());
        }
      }
    }
    for (const ProgramInput& input : program_.inputs) define(input.value);
    for (ValueId id : program_.parameters) define(id);
    for (ValueId id : program_.states) define(id);
    return std::nullopt;
  }

  // \pre the ids of operands and results exist
  std::optional<std::string> check_node(const Node& node) {
    const OpCall call = call_of(program_, node, point_);
    std::vector<Tensor> inputs;
    for (ValueId id : node.inputs)
      inputs.push_back(id == kNoValue ? Tensor{} : tensors_[index_of(id)]);
    std::array<TensorType, kMaxOpOutputs> types;
    size_t num_results = 0;
    if (node.op == OpCode::row_group) return check_group(node);
    try {
      num_results = infer_output_types(call, inputs, types);
    } catch (const Error& error) {  // a ShapeError, or any Error of a custom op's rule
      return fmt::format("{} with {}", error.what(), point_.to_string());
    }
    for (size_t i = 0; i < num_results; ++i) {
      const TensorType declared = program_.type(node.outputs[i]).evaluate(point_);
      if (declared != types[i]) {
        return fmt::format("the result is {}, not {}, with {}",
                           types[i].to_string(),
                           declared.to_string(),
                           point_.to_string());
      }
      define(node.outputs[i]);
    }
    if (is_view(node.op)) tensors_[index_of(node.outputs[0])] = make_view(call, inputs[0]);
    return check_effects(node);
  }

 private:
  // Checks that operands and results have the types that the group declares.
  std::optional<std::string> check_group(const Node& node) {
    const Program& group = program_.groups[node.attributes.group];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (program_.type(node.inputs[i]) != group.type(group.inputs[i].value)) {
        return fmt::format("operand {} does not have the type that its group wants", i);
      }
      if (!tensors_[index_of(node.inputs[i])].is_dense() &&
          tensors_[index_of(node.inputs[i])].rank() > 3) {
        return fmt::format("operand {} has rows of no known layout", i);
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (program_.type(node.outputs[i]) != group.type(group.outputs[i])) {
        return fmt::format("result {} does not have the type that its group gives", i);
      }
      define(node.outputs[i]);
    }
    return std::nullopt;
  }
  void define(ValueId id) {
    tensors_[index_of(id)] = Tensor::borrow(program_.type(id).evaluate(point_), nullptr, executor_);
  }
  // Checks that the new version of a state or buffer has the type of the operand that was written.
  std::optional<std::string> check_effects(const Node& node) {
    const OpSignature signature = signature_of(program_, node);
    std::vector<size_t> operands;
    if (signature.writes_states) operands.assign(signature.states.begin(), signature.states.end());
    if (signature.out_buffer) operands.push_back(*signature.out_buffer);
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId output = node.outputs[signature.num_results + i];
      if (program_.type(output) != program_.type(node.inputs[operands[i]])) {
        return fmt::format(
            "result {} must have the type of operand {}", signature.num_results + i, operands[i]);
      }
      define(output);
    }
    return std::nullopt;
  }

  const Program& program_;
  SymbolValues point_;
  NoExecutor executor_;
  std::vector<Tensor> tensors_;
};

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), is_defined_(program.values.size()), uses_(program.values.size()) {}

  std::optional<std::string> run() {
    if (auto violation = check_groups()) return violation;
    if (auto violation = check_declarations()) return violation;
    std::vector<TypeChecker> checkers;
    checkers.reserve(kPoints.size());
    for (const SymbolValues& point : kPoints) {
      checkers.emplace_back(program_, point);
      if (auto violation = checkers.back().check_sizes()) return violation;
    }
    current_ = program_.states;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const Node& node = program_.nodes[i];
      auto violation = check_node(node);
      for (TypeChecker& checker : checkers) {
        if (!violation) violation = checker.check_node(node);
      }
      if (violation) return fmt::format("op {} ({}): {}", i, op_name(node.op), *violation);
    }
    return check_end();
  }

 private:
  std::optional<std::string> define(ValueId id) {
    if (index_of(id) >= program_.values.size()) return "a value that does not exist is defined";
    if (is_defined_[index_of(id)]) return fmt::format("value {} is defined twice", index_of(id));
    is_defined_[index_of(id)] = true;
    return std::nullopt;
  }
  std::optional<std::string> use(ValueId id) {
    if (index_of(id) >= program_.values.size()) return "a value that does not exist is used";
    if (!is_defined_[index_of(id)]) {
      return fmt::format("value {} is used before it is defined", index_of(id));
    }
    ++uses_[index_of(id)];
    return std::nullopt;
  }

  std::optional<std::string> check_groups() const {
    for (size_t i = 0; i < program_.groups.size(); ++i) {
      if (auto violation = check_group(program_.groups[i])) {
        return fmt::format("group g{}: {}", i, *violation);
      }
    }
    return std::nullopt;
  }
  static std::optional<std::string> check_group(const Program& group) {
    if (!group.groups.empty()) return "a group holds no groups";
    if (!group.states.empty()) return "a group has no states";
    if (!group.parameters.empty()) return "a group has no parameters: all it reads are inputs";
    if (group.outputs.empty()) return "a group without results does nothing";
    for (const ProgramInput& input : group.inputs) {
      if (input.is_buffer) return "a group overwrites nothing";
    }
    for (const Node& node : group.nodes) {
      if (!definition_of(node.op).properties.is_row_wise)
        return fmt::format("{} is not row-wise", op_name(node.op));
      for (ValueId id : node.inputs) {
        const bool is_known = id != kNoValue && index_of(id) < group.values.size();
        if (is_known && !group.type(id).layout.is_rows()) return "reads a packed matrix";
      }
      if (node.op == OpCode::slice && node.attributes.dim == 0) return "slices rows";
    }
    if (auto violation = verify(group)) return violation;
    std::set<ValueId> results;
    for (const Node& node : group.nodes) {
      if (!is_view(node.op)) results.insert(node.outputs.begin(), node.outputs.end());
    }
    // Each output of a group gets separate memory. So it must be the result of an op that is not a
    // view, and it must occur only once.
    for (ValueId output : group.outputs) {
      if (results.erase(output) == 0) return "returns a view, an input, or one value twice";
    }
    const SymInt rows = group.type(group.outputs.front()).shape[0];
    for (ValueId output : group.outputs) {
      const SymShape& shape = group.type(output).shape;
      if (shape.rank() == 0 || shape[0] != rows) return "results must have the same rows";
      for (int dim = 1; dim < shape.rank(); ++dim) {
        if (!shape[dim].is_constant()) return "only rows may be of open size";
      }
    }
    if (rows.is_constant()) return "rows must be of open size";
    for (const ProgramInput& input : group.inputs) {
      const SymShape& shape = group.type(input.value).shape;
      if (shape.rank() > 0 && shape[0] == rows) return std::nullopt;
    }
    return "no operand has the rows of the results";
  }

  std::optional<std::string> check_declarations() {
    std::set<std::string> names;
    for (const ProgramInput& input : program_.inputs) {
      if (auto violation = define(input.value)) return violation;
      if (!names.insert(input.name).second)
        return fmt::format("two inputs are called '{}'", input.name);
      if (program_.value(input.value).state) return fmt::format("input '{}' is state", input.name);
      if (input.is_buffer) overwritable_.insert(input.value);
    }
    for (ValueId id : program_.parameters) {
      if (auto violation = define(id)) return violation;
      if (program_.value(id).state) return "a parameter is state";
    }
    for (size_t slot = 0; slot < program_.states.size(); ++slot) {
      if (auto violation = define(program_.states[slot])) return violation;
      if (program_.value(program_.states[slot]).state != slot) {
        return fmt::format("state slot {} holds a value of another", slot);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> check_node(const Node& node) {
    if (node.op == OpCode::custom && node.attributes.custom == nullptr) return "names no custom op";
    if (node.op == OpCode::row_group && node.attributes.group >= program_.groups.size()) {
      return "names no group";
    }
    const OpSignature signature = signature_of(program_, node);
    if (node.inputs.size() != signature.num_inputs) {
      return fmt::format("takes {} operands, not {}", signature.num_inputs, node.inputs.size());
    }
    if (node.outputs.size() != signature.num_outputs()) {
      return fmt::format("has {} results, not {}", signature.num_outputs(), node.outputs.size());
    }
    if (auto violation = check_attributes(node)) return violation;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (auto violation = check_operand(node, signature, i)) return violation;
    }
    for (ValueId output : node.outputs) {
      if (auto violation = define(output)) return violation;
    }
    return check_results(node, signature);
  }

  // An attribute that the op does not read must have its default value. The text does not print it,
  // so it would be lost when the program is printed and parsed, and equal programs would differ.
  static std::optional<std::string> check_attributes(const Node& node) {
    const NodeAttributes& has = node.attributes;
    NodeAttributes reads;
    reads.custom = node.op == OpCode::custom ? has.custom : nullptr;
    for (Attribute attribute : attributes_of(node.op)) {
      visit_member_of(attribute, [&](auto member) { reads.*member = has.*member; });
    }
    if (!std::isfinite(has.epsilon) || !std::isfinite(has.scale) || !std::isfinite(has.soft_cap) ||
        !std::isfinite(has.least) || !std::isfinite(has.limit) || !std::isfinite(has.k_scale) ||
        !std::isfinite(has.v_scale)) {
      return "an attribute is not finite";
    }
    if (reads != has) return "has an attribute that it does not read";
    return std::nullopt;
  }

  std::optional<std::string> check_operand(const Node& node,
                                           const OpSignature& signature,
                                           size_t index) {
    const ValueId id = node.inputs[index];
    if (id == kNoValue) {
      const auto& optional = signature.optional_inputs;
      if (std::find(optional.begin(), optional.end(), index) != optional.end()) return std::nullopt;
      return fmt::format("operand {} must not be left out", index);
    }
    if (auto violation = use(id)) return violation;
    const bool wants_state = std::find(signature.states.begin(), signature.states.end(), index) !=
                             signature.states.end();
    const std::optional<uint32_t> state = program_.value(id).state;
    if (wants_state != state.has_value()) {
      return fmt::format("operand {} must {}be state", index, wants_state ? "" : "not ");
    }
    if (state && (*state >= current_.size() || current_[*state] != id)) {
      return fmt::format("operand {} is not the current version of state s{}", index, *state);
    }
    if (signature.out_buffer == index) {
      if (!overwritable_.contains(id)) {
        return fmt::format("operand {} is overwritten, so it must be a buffer or a fresh empty",
                           index);
      }
      overwritten_.push_back(id);
    }
    return std::nullopt;
  }

  std::optional<std::string> check_results(const Node& node, const OpSignature& signature) {
    const size_t num_written = signature.writes_states ? signature.states.size() : 0;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const std::optional<uint32_t> state = program_.value(node.outputs[i]).state;
      if (i < signature.num_results || i >= signature.num_results + num_written) {
        if (state) return fmt::format("result {} must not be state", i);
        continue;
      }
      const size_t operand = signature.states[i - signature.num_results];
      const ValueId written = node.inputs[operand];
      if (state != program_.value(written).state || current_[*state] != written) {
        return fmt::format("result {} is not the next version of operand {}", i, operand);
      }
      current_[*state] = node.outputs[i];
    }
    if (node.op == OpCode::empty) overwritable_.insert(node.outputs.front());
    return std::nullopt;
  }

  std::optional<std::string> check_end() {
    for (ValueId id : program_.outputs) {
      if (auto violation = use(id)) return "return: " + *violation;
      if (program_.value(id).state) return "return: state is kept, not returned";
      if (std::find(program_.parameters.begin(), program_.parameters.end(), id) !=
          program_.parameters.end()) {
        return "return: a parameter is not a result";
      }
    }
    if (program_.final_states != current_) return "keep: must name the last version of each state";
    for (ValueId id : overwritten_) {
      if (uses_[index_of(id)] != 1) {
        return fmt::format("value {} is overwritten and used elsewhere", index_of(id));
      }
    }
    for (size_t i = 0; i < is_defined_.size(); ++i) {
      if (!is_defined_[i]) return fmt::format("value {} is never defined", i);
    }
    return std::nullopt;
  }

  const Program& program_;
  std::vector<bool> is_defined_;
  std::vector<size_t> uses_;
  std::vector<ValueId> current_;  // the current version of each state at this point of the program
  std::set<ValueId> overwritable_;
  std::vector<ValueId> overwritten_;
};

}  // namespace

std::optional<std::string> verify(const Program& program) { return Verifier(program).run(); }

void check(const Program& program) {
  if (const auto violation = verify(program)) throw ProgramError("program: " + *violation);
}

}  // namespace reprise::program
