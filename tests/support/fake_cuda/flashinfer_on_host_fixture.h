#pragma once

#include <map>
#include <string>

#include "tests/support/fake_cuda/host_kernels_fixture.h"

/// For tests: the kernels over FlashInfer's headers, run thread by thread like host_kernels(). The
/// build without these headers plays the parts of FlashInfer with the project's own functions.
namespace reprise::kernels::cuda {

[[nodiscard]] const std::map<std::string, HostKernel>& flashinfer_host_kernels();

}  // namespace reprise::kernels::cuda
