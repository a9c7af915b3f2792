#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

struct CustomOp;  // custom_op.h

/// All ops that an executor can run. op_list.inl says what each op does.
enum class OpCode : uint8_t {
#define X(op, ...) op,
#include "reprise/tensor/op_list.inl"
#undef X
};
inline constexpr size_t kNumOpCodes = static_cast<size_t>(OpCode::custom) + 1;

[[nodiscard]] std::string_view op_name(OpCode code) noexcept;

/// Generated code for a group of row-wise ops with fixed widths. Row r of each result depends only
/// on row r of the operands, and on tables and weights.
struct RowGroup {
  struct Result {
    DType dtype = DType::f32;
    Shape shape;  // a size of 0 stands for the number of rows
  };
  std::string name;
  std::vector<Result> results;
  size_t rows_of = 0;  // the operand that has as many rows as the results
  /// The kernel has this group's name and takes kernels::RowGroupArguments.
  device::Kernel kernel;
};

/// The constants of one op call. An op reads only the attributes that its signature in op_list.inl
/// names.
struct OpAttributes {
  OpFunction function = OpFunction::none;
  TensorType type;             // of the result of `empty`; the dtype is the attribute `dtype`
  float epsilon = 0;           // of all norms of the op
  int dim = 0;                 // of a slice
  int64_t begin = 0;           // of a slice
  int64_t length = 0;          // of a slice; also the attributes `heads` and `top_k`
  float scale = 0;             // of attention: multiplies q.k
  float k_scale = 1;           // of keys in a cache of eight bits
  float v_scale = 1;           // of values in such a cache
  int64_t sliding_window = 0;  // positions that a token sees, itself included; 0: all earlier ones
  int64_t chunk_size = 0;      // of attention: a token sees no earlier chunk of positions; 0: all
  float soft_cap = 0;          // limit c of c * tanh(x / c); of attention: of the scores, 0: none
  int64_t groups = 0;          // of experts
  int64_t top_groups = 0;      // groups of experts from which a token may choose
  float least = 0;             // of the results of clamp
  float limit = 0;             // of the inputs of swigluoai_and_mul; of clamp: of its results
  int64_t ranks = 0;           // size of the group of a collective op
  const RowGroup* row_group = nullptr;  // owned by the compiled program
  const CustomOp* custom = nullptr;     // owned by the code that registered it

  friend bool operator==(const OpAttributes&, const OpAttributes&) = default;
};

struct OpCall {
  OpCode code;
  OpAttributes attributes;
  /// The line of model code that made the call, for messages. Line 0 means that the line is not
  /// known.
  std::source_location where = {};
};

/// The operands of an op do not fit. The message names the op, the types of the operands, the
/// broken rule and the signature.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// The largest number of results that an op may have.
inline constexpr size_t kMaxOpOutputs = 4;

/// Computes the types of an op's results by the signature of the op in op_list.inl. Eager
/// execution, tracing and the interpreter all call this function. An undefined input is an optional
/// operand that is left out.
/// \returns the number of types written to `outputs`, which has room for kMaxOpOutputs
/// \throws ShapeError
size_t infer_output_types(const OpCall& call,
                          std::span<const Tensor> inputs,
                          std::span<TensorType> outputs);

/// Runs ops, or records them in a program. The model that calls the ops cannot tell the difference.
///
/// One executor belongs to one thread and one stream.
class OpExecutor {
 public:
  virtual ~OpExecutor() = default;

  /// Runs one call and fills `outputs`. If an output is already defined, the result is written to
  /// its memory: dense memory of the result's type, which may belong to an operand if can_alias()
  /// allows it. The executor allocates the other outputs. \throws ShapeError, device::DeviceError
  virtual void execute(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<Tensor> outputs) = 0;
};

}  // namespace reprise
