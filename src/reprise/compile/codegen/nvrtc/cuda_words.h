#pragma once

#include <string>

namespace reprise::compile {

/// The beginning of every generated CUDA translation unit: the text of
/// kernels/cuda/block_words.inl, and the code that all row groups share (teams, sums, norms, the
/// loop over a block's rows). NVRTC gets no headers; the host's compiler, in tests, includes
/// block.cuh instead of the text.
[[nodiscard]] std::string cuda_words();

}  // namespace reprise::compile
