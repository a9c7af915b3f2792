#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reprise/tensor/op.h"
#include "reprise/tensor/op_signature.h"

/// The rows of op_list.inl as C++ data.
namespace reprise {

using InferTypes = size_t (*)(const OpCall& call,
                              std::span<const Tensor> inputs,
                              std::span<TensorType> outputs);
/// Returns the rule that the operands break, or nullptr. \pre the types of the operands fit the
/// signature
using CheckOperands = const char* (*)(OpCode code, std::span<const Tensor> inputs);

/// The properties of an op besides its signature.
struct OpProperties {
  /// If set, this function computes the result types instead of the signature.
  InferTypes infer = nullptr;
  /// Checks a rule that a signature cannot express.
  CheckOperands check = nullptr;
  /// The result is a view of the first operand; see view.h.
  bool is_view = false;
  /// Row r of each result depends only on row r of the operands, and on tables and weights. The
  /// compiler combines such ops into row groups.
  bool is_row_wise = false;
  /// If `splitting_ops` names the op given here, programs are cut at this op too: attention_quant
  /// is cut like attention.
  std::optional<OpCode> splits_as = {};
  /// The name in vLLM's `splitting_ops`. Source: vLLM, vllm/config/compilation.py.
  std::string_view vllm_name = {};
  /// The ops that a fused op replaces, in order; empty: the op is not fused. "q_norm:rms_norm"
  /// means rms_norm, only if the operand q_norm is given.
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

/// The parsed signature of an op, as a compile-time constant.
template <OpCode kOp>
inline constexpr OpRule kRuleOf =
    SignatureParser(detail::kSignatures[static_cast<size_t>(kOp)]).parse();

/// The position of an operand, from its name: operand_of<OpCode::linear>("weight").
template <OpCode kOp>
consteval size_t operand_of(std::string_view name) {
  return operand_index(kRuleOf<kOp>, name);
}

/// The operands of a call of a known op, by name: in["weight"]. A name that is not an operand of
/// the op is a compile error.
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
