#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reprise/program/program.h"

/// What the code of a row group does, before it is said in instructions: which loops run over a
/// row, what they compute together and where what must be kept goes. No LLVM here.
namespace reprise::compile {

/// Part of a value, as an op reads it: what slice, unflatten and flatten have left. Element i of
/// head h lies at (h + head_begin) * head_stride + begin + i of the value's row.
struct RowRef {
  size_t value = 0;  // position in RowLoopPlan::values
  int64_t heads = 1;
  int64_t width = 0;
  int64_t head_begin = 0;
  int64_t begin = 0;
  /// Elements; nothing for an input of rank 3, whose launch says it.
  std::optional<int64_t> head_stride = 0;

  friend bool operator==(const RowRef&, const RowRef&) = default;
};

enum class RowValueKind : uint8_t {
  // memory of the caller
  rows,    // input with a row for each row of the group
  weight,  // input of rank 1 that all rows share
  // row of a table, chosen by an index; operands: table, indices
  looked_up,  // zeros for an index outside
  clamped,    // the nearest row for an index outside
  // computed from `sources`, and then rounded to the type
  copy,
  add,
  rms_norm,  // x, weight
  silu_and_mul,
  rope,  // x, and the row of cos | sin; computed by halves, never inside another op's loop
};
[[nodiscard]] constexpr bool is_memory(RowValueKind kind) noexcept {
  return kind <= RowValueKind::clamped;
}

/// One row of something: `heads` times `width` elements that are rounded to `dtype`.
struct RowValue {
  RowValueKind kind = RowValueKind::rows;
  DType dtype = DType::f32;
  int64_t heads = 1;
  int64_t width = 0;
  size_t operand = 0;  // of memory: input
  size_t indices = 0;  // of table rows: input
  std::vector<RowRef> sources;
  float epsilon = 0;
  /// Where a loop keeps it for later loops: bytes from the start of the scratch, or an output.
  std::optional<size_t> scratch;
  std::optional<size_t> kept_in_output;

  [[nodiscard]] bool is_kept() const noexcept { return scratch || kept_in_output; }
  /// Positions that a loop over it visits: half of a head for rope, which does two at a time.
  [[nodiscard]] int64_t loop_width() const noexcept {
    return kind == RowValueKind::rope ? width / 2 : width;
  }
};

/// What a loop does at each position.
struct RowAction {
  enum class Kind : uint8_t {
    sum_squares,  // of the x of `value`, an rms_norm; ends in its scale
    store,        // `value` to `output`
    keep,         // `value` to its scratch
  };
  Kind kind = Kind::store;
  size_t value = 0;
  size_t output = 0;
};

/// One pass over the width of a head.
struct RowLoop {
  int64_t width = 0;
  std::vector<RowAction> actions;
  std::vector<size_t> evaluated;  // computed values, sorted: others are read where they are kept
};

/// Loops that run one after the other for each head.
struct RowNest {
  int64_t heads = 1;
  /// So narrow that the loops are unrolled and nothing is kept between them but registers. Results
  /// are stored at the end of a head.
  bool is_unrolled = false;
  std::vector<RowLoop> loops;
};

/// Per row of the launch: the nests, in order.
struct RowLoopPlan {
  std::vector<RowValue> values;  // sources before users
  std::vector<RowNest> nests;
  size_t num_inputs = 0;
  size_t num_outputs = 0;
  size_t scratch_bytes = 0;  // a multiple of 64
};

/// Half of a first-level cache: a row that is kept is read again at once.
inline constexpr size_t kMaxRowScratchBytes = size_t{24} << 10;
inline constexpr size_t kMaxRowGroupNodes = 64;

/// The plan for vectors of `lanes` floats, or why there is none: a sentence.
///
/// An output may share the memory of any input with rows that has its type, exactly: the plan reads
/// each element before it writes there. It must not share that of a table or a weight.
[[nodiscard]] std::variant<RowLoopPlan, std::string> plan_row_loops(const program::Program& body,
                                                                    int lanes);

}  // namespace reprise::compile
