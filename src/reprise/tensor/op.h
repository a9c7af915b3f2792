#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

struct CustomOp;  // custom_op.h

/// Everything that an executor can run: the rows of op_list.inl, which say what each op does.
enum class OpCode : uint8_t {
#define X(op, ...) op,
#include "reprise/tensor/op_list.inl"
#undef X
};
inline constexpr size_t kNumOpCodes = static_cast<size_t>(OpCode::custom) + 1;

[[nodiscard]] std::string_view op_name(OpCode code) noexcept;

/// The op that runs after the norm in an op such as rms_norm_lm_head: it takes the norm of the
/// first operand and the other operands, except the last one, which is the weight of the norm.
/// Nothing for ops that do not begin with such a norm.
[[nodiscard]] std::optional<OpCode> op_after_norm(OpCode code) noexcept;

/// Code of a group of row-wise ops, generated for their widths. Row r of each result depends on row
/// r of the operands, and on tables and weights.
struct RowGroup {
  struct Result {
    DType dtype = DType::f32;
    Shape shape;  // size 0 is replaced by the number of rows
  };
  std::string name;
  std::vector<Result> results;
  size_t rows_of = 0;  // the operand that has as many rows as the results
  /// Takes kernels::RowGroupArguments. It has the name above.
  device::Kernel kernel;
};

/// The constants of one op call. Each op reads only those that its signature in op_list.inl names.
struct OpAttributes {
  TensorType type;             // of the result of `empty`; the dtype is the attribute `dtype`
  float epsilon = 0;           // of all norms of the op
  int dim = 0;                 // of a slice
  int64_t begin = 0;           // of a slice
  int64_t length = 0;          // of a slice; also the attributes `heads` and `top_k`
  float scale = 0;             // of attention: multiplies q.k
  int64_t sliding_window = 0;  // positions that a token sees, itself included; 0: all earlier ones
  float soft_cap = 0;          // limit c of c * tanh(x / c); of attention: of the scores, 0: none
  int64_t ranks = 0;           // size of the group of a collective op
  const RowGroup* row_group = nullptr;  // owned by the compiled program
  const CustomOp* custom = nullptr;     // owned by the code that registered it

  friend bool operator==(const OpAttributes&, const OpAttributes&) = default;
};

struct OpCall {
  OpCode code;
  OpAttributes attributes;
  /// The line of model code that made the call, for messages. Line 0: no line is known.
  std::source_location where = {};
};

/// The operands of an op do not fit. The message has the op, the types of the operands, the rule
/// and the signature.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// The largest number of results of any op.
inline constexpr size_t kMaxOpOutputs = 4;

/// The types of an op's results, by the rule of its row in op_list.inl, which eager execution,
/// tracing and the interpreter share. Undefined inputs are optional operands that are left out.
/// \returns the number of types written to `outputs`, which has room for kMaxOpOutputs
/// \throws ShapeError
size_t infer_output_types(const OpCall& call,
                          std::span<const Tensor> inputs,
                          std::span<TensorType> outputs);

/// Runs ops, or records them. A model does not know which of the two.
///
/// One executor belongs to one thread and one stream.
class OpExecutor {
 public:
  virtual ~OpExecutor() = default;

  /// Runs one call and fills `outputs`. An output that is defined before the call is dense memory
  /// of the result's type, which may be the memory of an operand where can_alias() allows it. The
  /// other outputs are allocated. \throws ShapeError, device::DeviceError
  virtual void execute(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<Tensor> outputs) = 0;
};

}  // namespace reprise
