#pragma once

#include <optional>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"

/// Generates CUDA C++ for row groups, from the same analysis of their bodies (row_values.h) as the
/// CPU code. It only produces text, so it needs no CUDA.
namespace reprise::compile {

/// Why no source can be generated for `body`, as a sentence; nullopt if it can.
[[nodiscard]] std::optional<std::string> why_no_cuda_source(const program::Program& body);

/// A translation unit with one kernel for each source. The kernel has the source's symbol as its
/// name and takes kernels::RowGroupArguments by value. A block computes rows_per_block rows. A warp
/// computes each row; if rows are wide, the whole block does. Results are collected in shared
/// memory first, because they may be stored over inputs. Sums are added in the order of
/// kernels/cuda/row_kernels.cuh, and values are rounded wherever the single ops would store them,
/// so the bits equal those of the single ops.
///
/// NVRTC compiles the text without headers. In tests, the host's compiler compiles the same kernels
/// with block.cuh. They are then functions with the same names that take a pointer to the
/// arguments, for run_on_host().
/// \pre why_no_cuda_source() of each body is nullopt
[[nodiscard]] std::string cuda_source(std::span<const RowGroupSource> sources);

/// Bytes of shared memory of a block that runs the body's kernel. On a GPU it is allocated
/// statically.
[[nodiscard]] size_t cuda_shared_bytes(const program::Program& body);

}  // namespace reprise::compile
