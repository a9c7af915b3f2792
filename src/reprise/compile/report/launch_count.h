#pragma once

#include <cstddef>
#include <vector>

#include "reprise/program/compiled_program.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Whether the op launches work on the device: views and `empty` do not.
[[nodiscard]] bool is_launch(OpCode op) noexcept;

/// Kernels that one run of a program launches; each group is one launch.
[[nodiscard]] size_t num_launches(const program::Program& program) noexcept;

/// The same when groups without code are launched op by op. `has_code`: by group; a missing entry
/// means no code.
[[nodiscard]] size_t num_launches(const program::Program& program,
                                  const std::vector<bool>& has_code);

/// Kernels that one step launches, all pieces together.
[[nodiscard]] size_t num_launches(const program::CompiledProgram& compiled);

}  // namespace reprise::compile
