#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reprise/program/program.h"

/// Plans the code of a row group, before instructions are generated: the loops over a row, the
/// values that each loop computes, and where values are kept between loops. This file does not use
/// LLVM.
namespace reprise::compile {

/// The part of a value that an op reads, after slice, unflatten and flatten are applied. In the row
/// of the value, element i of head h is at index (h + head_begin) * head_stride + begin + i.
struct RowRef {
  size_t value = 0;  // position in RowLoops::values
  int64_t heads = 1;
  int64_t width = 0;
  int64_t head_begin = 0;
  int64_t begin = 0;
  /// In elements. nullopt for an input of rank 3: its stride is known only at the launch.
  std::optional<int64_t> head_stride = 0;

  friend bool operator==(const RowRef&, const RowRef&) = default;
};

enum class RowValueKind : uint8_t {
  // Memory of the caller:
  rows,    // input with a row for each row of the group
  weight,  // input of rank 1 that all rows share
  // A row of a table that an index chooses. Operands: table, indices.
  looked_up,  // an index outside of the table gives zeros
  clamped,    // an index outside of the table gives the nearest row
  // Computed from `sources`, then rounded to `dtype`:
  copy,
  add,
  rms_norm,  // x, weight
  silu_and_mul,
  // operands: x, and the row cos | sin. It computes both halves of a head together, always in a
  // separate loop.
  rope,
};
[[nodiscard]] constexpr bool is_memory(RowValueKind kind) noexcept {
  return kind <= RowValueKind::clamped;
}

/// One row of a value: `heads` times `width` elements, rounded to `dtype`.
struct RowValue {
  RowValueKind kind = RowValueKind::rows;
  DType dtype = DType::f32;
  int64_t heads = 1;
  int64_t width = 0;
  size_t operand = 0;  // for memory: index of the input
  size_t indices = 0;  // for a row of a table: index of the input that holds the indices
  std::vector<RowRef> sources;
  float epsilon = 0;
  /// If a loop keeps the value for later loops, the place: bytes from the start of the scratch
  /// memory, or an output.
  std::optional<size_t> scratch;
  std::optional<size_t> kept_in_output;

  [[nodiscard]] bool is_kept() const noexcept { return scratch || kept_in_output; }
  /// The number of positions in a loop over the value. For rope half a head, because each position
  /// computes two elements.
  [[nodiscard]] int64_t loop_width() const noexcept {
    return kind == RowValueKind::rope ? width / 2 : width;
  }
};

/// What a loop does at each position.
struct RowAction {
  enum class Kind : uint8_t {
    sum_squares,  // adds up the squares of the x of an rms_norm (`value`), for its scale
    store,        // writes `value` to `output`
    keep,         // writes `value` to its place in the scratch
  };
  Kind kind = Kind::store;
  size_t value = 0;
  size_t output = 0;
};

/// One loop over the width of a head.
struct RowLoop {
  int64_t width = 0;
  std::vector<RowAction> actions;
  // Values that this loop computes, sorted; it reads other values from memory.
  std::vector<size_t> evaluated;
};

/// Loops that run one after the other, for each head.
struct RowNest {
  int64_t heads = 1;
  /// true: the loops are unrolled because the heads are narrow. Values between the loops stay in
  /// registers, and results are stored at the end of each head.
  bool is_unrolled = false;
  std::vector<RowLoop> loops;
};

/// The work for each row: the nests, in order.
struct RowLoops {
  std::vector<RowValue> values;  // sources before users
  std::vector<RowNest> nests;
  size_t num_inputs = 0;
  size_t num_outputs = 0;
  size_t scratch_bytes = 0;  // a multiple of 64
};

/// Half of a first-level cache, so that a kept row is still in the cache when it is read again.
inline constexpr size_t kMaxRowScratchBytes = size_t{24} << 10;
inline constexpr size_t kMaxRowGroupNodes = 64;

/// The loops for vectors with `lanes` floats, or the reason as a sentence why there are none.
///
/// An output may be stored exactly over any input that has rows of the same type, because each
/// element is read before it is overwritten. An output must not share the memory of a table or a
/// weight.
[[nodiscard]] std::variant<RowLoops, std::string> choose_row_loops(const program::Program& body,
                                                                   int lanes);

}  // namespace reprise::compile
