#pragma once

#include <cstddef>
#include <vector>

#include "reprise/program/compiled_program.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Whether the op launches work on the device. Views and `empty` do not.
[[nodiscard]] bool is_launch(OpCode op) noexcept;

/// The number of kernels that one run of a program launches, if every row group is one launch.
[[nodiscard]] size_t num_launches(const program::Program& program) noexcept;

/// The same number if the ops of groups without code are launched one by one. `has_code` says for
/// each group whether it has code; a missing entry means no.
[[nodiscard]] size_t num_launches(const program::Program& program,
                                  const std::vector<bool>& has_code);

/// The number of kernels that one step launches, over all pieces.
[[nodiscard]] size_t num_launches(const program::CompiledProgram& compiled);

}  // namespace reprise::compile
