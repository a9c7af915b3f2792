#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "reprise/compile/codegen/row_loops.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A body as values of one row: views become references, and an op with two results becomes two
/// values.
struct RowValues {
  std::vector<RowValue> values;  // sources before users
  std::vector<size_t> outputs;   // by output: a computed value, used completely
  size_t num_inputs = 0;
};

/// Returns the reason, as a sentence, when code generation does not support the body.
[[nodiscard]] std::variant<RowValues, std::string> read_row_values(const program::Program& body);

/// A reference to the whole value.
[[nodiscard]] RowRef whole(const std::vector<RowValue>& values, size_t value);

}  // namespace reprise::compile
