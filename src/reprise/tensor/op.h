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

/// Everything that can be asked of an executor: one enumerator, one rule in op.cpp. Models use
/// those of ops.h; the others stand for several of them and come out of the compiler.
enum class OpCode : uint8_t {
  // memory
  empty,  // () -> out of attributes.type
  // views: no work, no memory
  slice,      // (x) -> x[..., begin:begin+length, ...]
  unflatten,  // (x) -> last dimension split into [heads, rest]
  flatten,    // (x) -> last two dimensions merged
  // row-wise
  embedding,           // (ids[T] i32, table[V, H]) -> [T, H]
  rms_norm,            // (x[..., H], weight[H]) -> [..., H]
  add,                 // (a, b) -> a + b
  fused_add_rms_norm,  // (x[..., H], residual[..., H], weight[H]) -> norm of the sum, the sum
  silu_and_mul,        // (x[T, 2I]) -> silu(x[:, :I]) * x[:, I:]
  gather_rows,         // (x[T, H], indices[R] i32) -> [R, H]
  // matrix products
  linear,   // (x[T, K], weight[N, K], bias[N]?) -> [T, N]
  lm_head,  // (x[R, K], weight[V, K], num_rows[1] i32) -> f32[R, V]; rows >= num_rows are skipped
  // attention
  rope,       // (q[T, Hq, D], k[T, Hk, D], positions[T] i32, cos_sin[P, D] f32) -> q', k'
  kv_write,   // (k[T, Hk, D], v[T, Hk, D], key_cache, value_cache, slot_mapping[T] i32) -> ()
  attention,  // (q, key_cache, value_cache, query_start_loc[R+1], seq_lens[R], block_table[R, B],
              // out)
  // several of the above in one launch, with the bits that they have one after the other
  linear_add,            // (x, weight, bias?, residual[T, N]) -> residual + linear(x, weight, bias)
  linear_silu_and_mul,   // (x, weight[2I, K], bias?) -> [T, I]
  rope_kv_write,         // (q, k, v, positions, cos_sin, key_cache, value_cache, slot_mapping,
                         //  q_norm[D]?, k_norm[D]?) -> q'; the norms of both or of none come first
  linear_rope_kv_write,  // (x, weight, bias?, positions, cos_sin, key_cache, value_cache,
                         //  slot_mapping, q_norm?, k_norm?) -> q'[T, heads, D] of x's q, k and v
  // The same of the norm of x, whose weight[K] is the last operand; one epsilon for all norms.
  rms_norm_linear_silu_and_mul,
  rms_norm_linear_rope_kv_write,
  rms_norm_lm_head,
  // eight-bit activations
  quantize_per_token,        // (x[T, H]) -> [T, H] of attributes.type.dtype, f32 scale[T]
  quantize_static,           // (x[...], f32 scale[1]) -> [...] of attributes.type.dtype
  rms_norm_quant,            // (x[T, H], weight[H]) -> quantised norm, scale[T]
  fused_add_rms_norm_quant,  // (x, residual, weight) -> quantised norm, scale[T], the sum
  silu_and_mul_quant,        // (x[T, 2I]) -> [T, I] quantised, scale[T]
  scaled_linear,    // (x[T, K], f32 scale[T or 1], weight[N, K] like x, f32 weight_scale[N],
                    //  bias[N]?) -> [T, N] of attributes.type.dtype
  attention_quant,  // (as attention up to block_table, f32 scale[1], out of eight bits)
  // between the ranks of a group, each of which runs the same program on its part
  all_reduce,                     // (x) -> the sum over ranks
  reduce_scatter,                 // (x[T, H]) -> [T / ranks, H]: this rank's rows of the sum
  all_gather,                     // (x[S, H]) -> [S * ranks, H]: every rank's rows
  fused_all_reduce_add_rms_norm,  // (x, residual?, weight) -> norm of the sum, the sum
  linear_reduce_scatter,          // (x, weight, bias?) -> reduce_scatter(linear(...))
  all_gather_linear,              // (x, weight, bias?) -> linear(all_gather(x), ...)
  // not of ours
  row_group,  // the operands and results of a group of row-wise ops: see RowGroup
  custom,     // those of attributes.custom
};
/// One above the last.
inline constexpr size_t kNumOpCodes = static_cast<size_t>(OpCode::custom) + 1;

[[nodiscard]] std::string_view op_name(OpCode code) noexcept;

/// What an op does to the norm of its first operand, with its other operands but the last, the
/// weight of the norm; nothing for other ops.
[[nodiscard]] std::optional<OpCode> op_behind_norm(OpCode code) noexcept;

/// Code of a group of row-wise ops, generated for their widths. Row r of each result is made of
/// row r of the operands, and of tables and weights.
struct RowGroup {
  struct Result {
    DType dtype = DType::f32;
    Shape shape;  // its size 0 stands for the rows
  };
  std::string name;
  std::vector<Result> results;
  size_t rows_of = 0;  // the operand that has as many rows as the results
  /// Called with kernels::RowGroupArguments. Its name is the one above.
  device::Kernel kernel;
};

/// The constants of one op call; each op reads only the fields its line names.
struct OpAttributes {
  TensorType type;     // empty; quantising ops: dtype of the result
  float epsilon = 0;   // all norms
  int dim = 0;         // slice
  int64_t begin = 0;   // slice
  int64_t length = 0;  // slice; unflatten, linear_rope_kv_write: number of heads
  float scale = 0;     // attention: multiplies q.k
  int64_t sliding_window =
      0;              // attention: 0 = all earlier positions, else that many including self
  int64_t ranks = 0;  // collectives: size of the group
  const RowGroup* row_group = nullptr;  // row_group; owned by whoever compiled it
  const CustomOp* custom = nullptr;     // custom; owned by whoever registered it

  friend bool operator==(const OpAttributes&, const OpAttributes&) = default;
};

struct OpCall {
  OpCode code;
  OpAttributes attributes;
  /// The line of model code that asked for it, for people; line 0: nobody's.
  std::source_location where = {};
};

/// Two arguments do not fit each other. The message has the op, the argument types and the rule.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// Most outputs any op has.
inline constexpr size_t kMaxOpOutputs = 4;

/// The types of an op's results: the one shape rule that eager execution, tracing and the
/// interpreter share. Undefined inputs are optional arguments left out.
/// \returns the number of outputs written to `outputs` (at least kMaxOpOutputs long).
/// \throws ShapeError
size_t infer_output_types(const OpCall& call,
                          std::span<const Tensor> inputs,
                          std::span<TensorType> outputs);

/// Runs ops, or records them. A model never sees which.
///
/// One executor belongs to one thread and one stream.
class OpExecutor {
 public:
  virtual ~OpExecutor() = default;

  /// Performs one call and fills `outputs`. An output that is defined already is dense memory of
  /// the result's type to write to, which may be that of an operand whose kernel allows it; the
  /// others are allocated. \throws ShapeError, device::DeviceError
  virtual void execute(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<Tensor> outputs) = 0;
};

}  // namespace reprise
