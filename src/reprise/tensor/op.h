#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// Everything a model can ask for. One enumerator, one function in ops.h, one rule in op.cpp.
enum class OpCode : uint8_t {
  // memory
  empty,        // () -> out of attributes.type
  // views: no work, no memory
  slice,        // (x) -> x[..., begin:begin+length, ...]
  unflatten,    // (x) -> last dimension split into [heads, rest]
  flatten,      // (x) -> last two dimensions merged
  // row-wise
  embedding,    // (ids[T] i32, table[V, H]) -> [T, H]
  rms_norm,     // (x[..., H], weight[H]) -> [..., H]
  add,          // (a, b) -> a + b
  fused_add_rms_norm,  // (x[..., H], residual[..., H], weight[H]) -> norm of the sum, the sum
  silu_and_mul, // (x[T, 2I]) -> silu(x[:, :I]) * x[:, I:]
  gather_rows,  // (x[T, H], indices[R] i32) -> [R, H]
  // matrix products
  linear,       // (x[T, K], weight[N, K], bias[N]?) -> [T, N]
  lm_head,      // (x[R, K], weight[V, K], num_rows[1] i32) -> f32[R, V]; rows >= num_rows are skipped
  // attention
  rope,         // (q[T, Hq, D], k[T, Hk, D], positions[T] i32, cos_sin[P, D] f32) -> q', k'
  kv_write,     // (k[T, Hk, D], v[T, Hk, D], key_cache, value_cache, slot_mapping[T] i32) -> ()
  attention,    // (q, key_cache, value_cache, query_start_loc[R+1], seq_lens[R], block_table[R, B], out)
};

[[nodiscard]] std::string_view op_name(OpCode code) noexcept;

/// The constants of one op call; each op reads only the fields its line names.
struct OpAttributes {
  TensorType type;             // empty
  float epsilon = 0;           // rms_norm, fused_add_rms_norm
  int dim = 0;                 // slice
  int64_t begin = 0;           // slice
  int64_t length = 0;          // slice; unflatten: number of heads
  float scale = 0;             // attention: multiplies q.k
  int64_t sliding_window = 0;  // attention: 0 = all earlier positions, else that many including self

  friend bool operator==(const OpAttributes&, const OpAttributes&) = default;
};

struct OpCall {
  OpCode code;
  OpAttributes attributes;
};

/// Two arguments do not fit each other. The message has the op, the argument types and the rule.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// Most outputs any op has.
inline constexpr size_t kMaxOpOutputs = 2;

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

  /// Performs one call and fills `outputs`. \throws ShapeError, device::DeviceError
  virtual void execute(const OpCall& call,
                       std::span<const Tensor> inputs,
                       std::span<Tensor> outputs) = 0;
};

}  // namespace reprise
