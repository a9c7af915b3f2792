#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "reprise/compile/codegen/row_loop_plan.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// A body as values of one row: views are gone into references, ops of two results are two values.
struct RowValues {
  std::vector<RowValue> values;  // sources before users
  std::vector<size_t> outputs;   // by output: a computed value, all of it
  size_t num_inputs = 0;
};

/// Or why code generation has no words for it: a sentence.
[[nodiscard]] std::variant<RowValues, std::string> read_row_values(const program::Program& body);

/// All of a value.
[[nodiscard]] RowRef whole(const std::vector<RowValue>& values, size_t value);

}  // namespace reprise::compile
