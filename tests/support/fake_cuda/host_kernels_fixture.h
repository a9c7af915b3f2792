#pragma once

#include <functional>
#include <map>
#include <string>

#include "reprise/kernels/kernel_table.h"

/// For tests: every CUDA kernel as a function of the host, run thread by thread.
namespace reprise::kernels::cuda {

struct HostKernel {
  size_t argument_bytes = 0;
  /// the parameters: arguments, number of blocks, first block, one past the last block
  std::function<void(const void*, uint32_t, uint32_t, uint32_t)> run;
};

/// Kernels by the function names in the image.
[[nodiscard]] const std::map<std::string, HostKernel>& host_kernels();

/// The row_kernels() table with host functions, for running the tests of the CPU's kernels on them.
[[nodiscard]] const KernelTable& row_kernels_on_host();

}  // namespace reprise::kernels::cuda
