#pragma once

#include <cstddef>
#include <vector>

#include "reprise/program/compiled_program.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Whether the op asks the device for work: views and `empty` do not.
[[nodiscard]] bool is_launch(OpCode op) noexcept;

/// Kernels that one run of a program launches; each group is one launch.
[[nodiscard]] size_t num_launches(const program::Program& program) noexcept;

/// The same where groups without code (by group; left out: none) are launched op by op.
[[nodiscard]] size_t num_launches(const program::Program& program,
                                  const std::vector<bool>& has_code);

/// Kernels that one step launches, all pieces together.
[[nodiscard]] size_t num_launches(const program::CompiledProgram& compiled);

}  // namespace reprise::compile
