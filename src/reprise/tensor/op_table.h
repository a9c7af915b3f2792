#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reprise/tensor/op.h"
#include "reprise/tensor/op_signature.h"

/// What the rows of op_list.inl say, for the code that reads it.
namespace reprise {

using InferTypes = size_t (*)(const OpCall& call,
                              std::span<const Tensor> inputs,
                              std::span<TensorType> outputs);
/// The rule that the operands break, or nullptr. \pre their types fit the signature
using CheckOperands = const char* (*)(OpCode code, std::span<const Tensor> inputs);

/// The properties of an op besides its signature.
struct OpProperties {
  /// Replaces the signature as the rule of types.
  InferTypes infer = nullptr;
  /// A rule that the signature cannot say.
  CheckOperands check = nullptr;
  /// Shows memory of its first operand; see view.h.
  bool is_view = false;
  /// A row of each result depends on one row of the operands, and on tables and weights. The
  /// compiler makes groups of such ops.
  bool is_row_wise = false;
  /// The op to which this op hands the norm of its first operand and its other operands, except the
  /// last one: the weight of the norm.
  std::optional<OpCode> after_norm = {};
  /// `splitting_ops` that name that op mean this op too.
  std::optional<OpCode> splits_as = {};
  /// The name in vLLM's `splitting_ops`. Source: vLLM, vllm/config/compilation.py.
  std::string_view vllm_name = {};
  /// The ops that this op stands for, in order; empty: itself alone. "q_norm:rms_norm" stands for
  /// rms_norm where the operand q_norm is given.
  std::string_view parts = {};
};

struct OpDefinition {
  std::string_view name;
  std::string_view signature;
  OpRule rule;
  OpProperties properties;
};

[[nodiscard]] const OpDefinition& definition_of(OpCode code) noexcept;

/// \throws ShapeError with the op, the types of the operands, the broken rule and the signature
[[noreturn]] void refuse_operands(const OpCall& call,
                                  std::span<const Tensor> inputs,
                                  std::string_view rule);

namespace detail {
inline constexpr std::string_view kSignatures[] = {
#define X(name, signature, ...) signature,
#include "reprise/tensor/op_list.inl"
#undef X
};
}  // namespace detail

/// The rule of an op that is known when the code is compiled.
template <OpCode kOp>
inline constexpr OpRule kRuleOf =
    SignatureParser(detail::kSignatures[static_cast<size_t>(kOp)]).parse();

/// The position of an operand, from its name: operand_of<OpCode::linear>("weight").
template <OpCode kOp>
consteval size_t operand_of(std::string_view name) {
  return operand_index(kRuleOf<kOp>, name);
}

/// The operands of a call of a known op, by name: in["weight"]. A name that the op does not have
/// does not compile.
template <OpCode kOp>
class Operands {
 public:
  struct Name {
    size_t index;
    consteval Name(const char* name) : index(operand_of<kOp>(name)) {}  // NOLINT
  };

  explicit Operands(std::span<const Tensor> tensors) : tensors_(tensors) {}
  const Tensor& operator[](Name name) const { return tensors_[name.index]; }

 private:
  std::span<const Tensor> tensors_;
};

}  // namespace reprise
