#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "reprise/program/program.h"

namespace reprise::compile {

/// For each node of a program, which rows of which values it reads. A view counts as the value that
/// it shows. Used by group_rows(). Borrows the program, which must not change.
class RowFlow {
 public:
  explicit RowFlow(const program::Program& program);

  [[nodiscard]] const program::Program& program() const noexcept { return program_; }

  [[nodiscard]] bool is_view(size_t node) const;
  /// The view node that defines a value; nullopt if no view defines it.
  [[nodiscard]] std::optional<size_t> view(program::ValueId value) const;
  /// The node, view or not, that defines a value.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value) const {
    return value == program::kNoValue ? std::nullopt : definition_[index_of(value)];
  }
  /// The value that has the rows of `value`. Looks through views that do not change rows.
  [[nodiscard]] program::ValueId rows_behind(program::ValueId value) const;

  /// Whether the node can be part of a row group: it is row-wise and no view, its number of rows
  /// depends on the batch, and one of its results is used.
  [[nodiscard]] bool can_be_member(size_t node) const { return can_be_member_[node]; }
  /// Whether row r of a result depends on row r of this operand. Other operands are tables or
  /// weights.
  [[nodiscard]] static bool reads_rows(OpCode op, size_t operand);

  /// For each value, the nodes (no views) that read its rows.
  [[nodiscard]] const std::map<program::ValueId, std::vector<size_t>>& row_readers() const {
    return row_readers_;
  }
  [[nodiscard]] std::span<const program::ValueId> rows_read_by(size_t node) const {
    return rows_read_[node];
  }
  /// The nodes (no views) whose results a node reads, and those that read its results.
  [[nodiscard]] std::span<const size_t> nodes_before(size_t node) const { return before_[node]; }
  [[nodiscard]] std::span<const size_t> nodes_after(size_t node) const { return after_[node]; }

  /// The results of these nodes that other nodes use. \pre `nodes` is sorted
  [[nodiscard]] std::vector<program::ValueId> results_of(std::span<const size_t> nodes) const;
  [[nodiscard]] bool have_equal_rows(std::span<const size_t> nodes) const;
  /// The bytes of one row. A row that is a single number (a position, an index) counts as 0.
  [[nodiscard]] int64_t row_bytes(program::ValueId value) const;

 private:
  void add_node(size_t node);
  // The value of which `value` is a view, through views of any kind.
  [[nodiscard]] program::ValueId root(program::ValueId value) const;

  const program::Program& program_;
  std::vector<std::optional<size_t>> definition_;  // by value
  // By value: the nodes that use the value or a view of it.
  std::vector<std::vector<size_t>> users_;
  // By value: whether the program returns the value or a view of it.
  std::vector<bool> is_returned_;
  std::vector<bool> can_be_member_;                       // by node
  std::vector<std::vector<program::ValueId>> rows_read_;  // by node
  std::vector<std::vector<size_t>> before_;               // by node
  std::vector<std::vector<size_t>> after_;                // by node
  std::map<program::ValueId, std::vector<size_t>> row_readers_;
};

struct RowGroupBody {
  program::Program program;
  std::vector<program::ValueId> inputs;   // operands of the group's node
  std::vector<program::ValueId> outputs;  // results of the group's node
};

/// Makes one row group of the nodes. Returns nullopt if a node reads a result of another node other
/// than row by row, or if no operand has as many rows as the results.
/// \pre `nodes` is sorted
[[nodiscard]] std::optional<RowGroupBody> make_body(const RowFlow& flow,
                                                    std::span<const size_t> nodes);

/// Whether the group fits into the arguments of a launch and respects the limits of generated code.
[[nodiscard]] bool is_within_limits(const RowGroupBody& body);

}  // namespace reprise::compile
