#include "reprise/api/loading/cpu_only.h"

#include <fmt/format.h>

#include "reprise/api/options/load_quantization.h"
#include "reprise/base/error.h"

namespace reprise::api {

void refuse_what_needs_the_cpu(const EngineArgs& args, const ResolvedOptions& options) {
  const auto method = load_quantization(args, options.config);
  if (method == weights::LoadQuantization::int8) {
    throw InvalidArgument(
        fmt::format("--quantization: {}: weights in this form have kernels on the CPU only; use "
                    "int4, q8_0 or fp8, or --device cpu, or leave the option out",
                    args.quantization));
  }
  if (args.ranks != nullptr || args.replicas != nullptr) {
    throw InvalidArgument(
        "--tensor-parallel-size, --data-parallel-size: several ranks run on CPUs only; use "
        "--device cpu");
  }
}

}  // namespace reprise::api
