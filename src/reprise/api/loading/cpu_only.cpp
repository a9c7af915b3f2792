#include "reprise/api/loading/cpu_only.h"

#include "reprise/base/error.h"

namespace reprise::api {

void refuse_what_needs_the_cpu(const EngineArgs& args) {
  if (args.ranks != nullptr || args.replicas != nullptr) {
    throw InvalidArgument(
        "--tensor-parallel-size, --data-parallel-size: several ranks run on CPUs only; use "
        "--device cpu");
  }
}

}  // namespace reprise::api
