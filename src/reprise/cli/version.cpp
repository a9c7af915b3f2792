#include "reprise/cli/version.h"

#include <fmt/format.h>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/isa.h"

namespace reprise::cli {

std::string version_text() {
  const device::CpuFeatures features = device::detect_cpu_features();
  std::string isas;
  for (kernels::Isa isa : kernels::supported_isas(features)) {
    isas += fmt::format(" {}", kernels::isa_name(isa));
  }
  return fmt::format(
      "reprise {}\ncpu features: {}\nkernels that run here:{} (best: {})\ndevices: cpu",
      kVersion,
      device::to_string(features),
      isas,
      kernels::isa_name(kernels::best_isa(features)));
}

}  // namespace reprise::cli
