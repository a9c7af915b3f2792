#include "reprise/api/loading/cpu_only.h"

#include "reprise/base/error.h"

namespace reprise::api {

void refuse_what_needs_the_cpu(const EngineArgs& args) {
  if (args.ranks != nullptr && args.async_scheduling) {
    throw InvalidArgument(
        "--async-scheduling: the tokens of a step stay on the GPU of rank 0, and the other ranks "
        "need them on the host (--tensor-parallel-size, --pipeline-parallel-size); leave it out, "
        "or "
        "use --device cpu");
  }
}

}  // namespace reprise::api
