#pragma once

#include <optional>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"

/// Generates CUDA C++ for row groups, from the same analysis of their bodies as the CPU's code
/// (row_values.h). This file needs no CUDA: it converts text to text.
namespace reprise::compile {

/// The reason why no source can be generated for `body`, as a sentence; nullopt if it can.
[[nodiscard]] std::optional<std::string> why_no_cuda_source(const program::Program& body);

/// A translation unit with one kernel for each source, named by the source's symbol, which takes
/// kernels::RowGroupArguments by value. A block computes rows_per_block rows: a warp computes each
/// row, or the whole block if the row is wide. Results go through shared memory, because they may
/// use the memory of inputs. Sums have the order of kernels/cuda/row_kernels.cuh, and values are
/// rounded where a store would round them, so the bits equal those of the single ops.
///
/// NVRTC compiles the text without headers. The host's compiler reads the same kernels through
/// block.cuh, as functions of the same names that take a pointer to the arguments, for
/// run_on_host(). \pre why_no_cuda_source() of each body is nullopt
[[nodiscard]] std::string cuda_source(std::span<const RowGroupSource> sources);

/// Shared memory of a block of the body's kernel, bytes. It is static on a GPU.
[[nodiscard]] size_t cuda_shared_bytes(const program::Program& body);

}  // namespace reprise::compile
