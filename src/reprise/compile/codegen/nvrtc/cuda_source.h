#pragma once

#include <optional>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"

/// CUDA C++ for row groups, from the same reading of their bodies as the CPU's code
/// (row_values.h). No CUDA here: text in, text out.
namespace reprise::compile {

/// Why there would be no source for `body`: a sentence.
[[nodiscard]] std::optional<std::string> why_no_cuda_source(const program::Program& body);

/// A translation unit with one kernel for each source, of the source's symbol, that takes
/// kernels::RowGroupArguments by value. A block computes rows_per_block rows, each by a warp or, if
/// it is wide, by the block; results go through shared memory, so that they may lie where inputs
/// do. Sums have the order of kernels/cuda/row_kernels.cuh and values are rounded where storing
/// them would round them: the bits of the ops one by one.
///
/// For NVRTC it needs no header. The host's compiler reads the same kernels through block.cuh, as
/// functions of the same names that take a pointer to the arguments, for run_on_host().
/// \pre why_no_cuda_source() of each body is nothing
[[nodiscard]] std::string cuda_source(std::span<const RowGroupSource> sources);

/// Shared memory of a block of the body's kernel, bytes. It is static on a GPU.
[[nodiscard]] size_t cuda_shared_bytes(const program::Program& body);

}  // namespace reprise::compile
