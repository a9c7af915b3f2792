#pragma once

#include <string>

namespace reprise::compile {

/// The text at the start of every generated CUDA translation unit: kernels/cuda/block_words.inl,
/// and the code that all row groups use (teams, sums, norms, the loop over a block's rows). NVRTC
/// gets no headers. In tests, the host's compiler includes block.cuh instead of block_words.inl.
[[nodiscard]] std::string cuda_words();

}  // namespace reprise::compile
