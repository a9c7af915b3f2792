#pragma once

#include <string_view>

namespace reprise::compile {

/// What every generated CUDA translation unit begins with: the words of kernels/cuda/block.cuh that
/// generated code uses, without a header, since NVRTC has none; for the host's compiler that header
/// itself. And what all row groups share: teams, sums, norms, the loop over a block's rows.
[[nodiscard]] std::string_view cuda_words();

}  // namespace reprise::compile
