#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "reprise/compile/codegen/row_loops.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// The body of a row group as values of one row. Views become references (RowRef), and an op with
/// two results becomes two values.
struct RowValues {
  std::vector<RowValue> values;  // sources before users
  // For each output: the value that it stores; always a whole computed value.
  std::vector<size_t> outputs;
  size_t num_inputs = 0;
};

/// Returns the reason as a sentence if code generation does not support the body.
[[nodiscard]] std::variant<RowValues, std::string> read_row_values(const program::Program& body);

/// A reference to all elements of the value.
[[nodiscard]] RowRef whole(const std::vector<RowValue>& values, size_t value);

}  // namespace reprise::compile
