#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reprise/program/program.h"

/// Plans the code of a row group before it becomes instructions: the loops over a row, the values
/// that each loop computes, and the places of values that are kept. This file does not use LLVM.
namespace reprise::compile {

/// The part of a value that an op reads, after slice, unflatten and flatten. Element i of head h
/// lies at (h + head_begin) * head_stride + begin + i of the value's row.
struct RowRef {
  size_t value = 0;  // position in RowLoops::values
  int64_t heads = 1;
  int64_t width = 0;
  int64_t head_begin = 0;
  int64_t begin = 0;
  /// In elements; nullopt for an input of rank 3, whose stride is an argument of the launch.
  std::optional<int64_t> head_stride = 0;

  friend bool operator==(const RowRef&, const RowRef&) = default;
};

enum class RowValueKind : uint8_t {
  // memory of the caller:
  rows,    // input with a row for each row of the group
  weight,  // input of rank 1 that all rows share
  // a row of a table, chosen by an index; operands: table, indices
  looked_up,  // zeros for an index outside
  clamped,    // the nearest row for an index outside
  // computed from `sources`, then rounded to the type:
  copy,
  add,
  rms_norm,  // x, weight
  silu_and_mul,
  rope,  // x, and the row of cos | sin; computed in halves, always in its own loop
};
[[nodiscard]] constexpr bool is_memory(RowValueKind kind) noexcept {
  return kind <= RowValueKind::clamped;
}

/// One row of a value: `heads` times `width` elements that are rounded to `dtype`.
struct RowValue {
  RowValueKind kind = RowValueKind::rows;
  DType dtype = DType::f32;
  int64_t heads = 1;
  int64_t width = 0;
  size_t operand = 0;  // of memory: index of the input
  size_t indices = 0;  // of table rows: index of the input
  std::vector<RowRef> sources;
  float epsilon = 0;
  /// The place where a loop keeps the value for later loops: bytes from the start of the scratch,
  /// or an output.
  std::optional<size_t> scratch;
  std::optional<size_t> kept_in_output;

  [[nodiscard]] bool is_kept() const noexcept { return scratch || kept_in_output; }
  /// Positions that a loop over the value visits; for rope half a head, because each step handles
  /// two.
  [[nodiscard]] int64_t loop_width() const noexcept {
    return kind == RowValueKind::rope ? width / 2 : width;
  }
};

/// The work of a loop at each position.
struct RowAction {
  enum class Kind : uint8_t {
    sum_squares,  // sums the squares of the x of `value`, an rms_norm; gives its scale
    store,        // writes `value` to `output`
    keep,         // writes `value` to its scratch
  };
  Kind kind = Kind::store;
  size_t value = 0;
  size_t output = 0;
};

/// One pass over the width of a head.
struct RowLoop {
  int64_t width = 0;
  std::vector<RowAction> actions;
  std::vector<size_t> evaluated;  // computed values, sorted; other values are read from their place
};

/// Loops that run one after the other for each head.
struct RowNest {
  int64_t heads = 1;
  /// True for a narrow nest: its loops are unrolled, and values between them stay in registers.
  /// Results are stored at the end of a head.
  bool is_unrolled = false;
  std::vector<RowLoop> loops;
};

/// The work for each row of the launch: the nests, in order.
struct RowLoops {
  std::vector<RowValue> values;  // sources before users
  std::vector<RowNest> nests;
  size_t num_inputs = 0;
  size_t num_outputs = 0;
  size_t scratch_bytes = 0;  // a multiple of 64
};

/// Half of a first-level cache, because a kept row is soon read again.
inline constexpr size_t kMaxRowScratchBytes = size_t{24} << 10;
inline constexpr size_t kMaxRowGroupNodes = 64;

/// The loops for vectors of `lanes` floats, or the reason why there are none, as a sentence.
///
/// An output may use exactly the memory of any input that has rows of the same type, because the
/// function reads each element before it overwrites it. An output must not share the memory of a
/// table or a weight.
[[nodiscard]] std::variant<RowLoops, std::string> choose_row_loops(const program::Program& body,
                                                                   int lanes);

}  // namespace reprise::compile
