#pragma once

#include <functional>
#include <map>
#include <string>

#include "reprise/kernels/kernel_table.h"

/// For tests: every CUDA kernel as a function of the host, run thread by thread.
namespace reprise::kernels::cuda {

struct HostKernel {
  size_t argument_bytes = 0;
  /// (arguments, blocks in all, first, behind the last)
  std::function<void(const void*, uint32_t, uint32_t, uint32_t)> run;
};

/// By function name of the image.
[[nodiscard]] const std::map<std::string, HostKernel>& host_kernels();

/// row_kernels() with functions of the CPU, for the tests of the CPU's kernels.
[[nodiscard]] const KernelTable& row_kernels_on_host();

}  // namespace reprise::kernels::cuda
