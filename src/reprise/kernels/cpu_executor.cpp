#include "reprise/kernels/cpu_executor.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/tensor/custom_op.h"

namespace reprise::kernels {

// `empty` only needs memory, and the executor itself makes views.
bool launch_empty(const OpRun&) { return false; }
bool launch_slice(const OpRun&) { return false; }
bool launch_unflatten(const OpRun&) { return false; }
bool launch_flatten(const OpRun&) { return false; }

bool launch_custom(const OpRun& run) {
  const CustomOp& op = *run.call.attributes.custom;
  if (!op.launch_cpu) {
    throw InvalidArgument(fmt::format(
        "custom op {} has no kernel for {}: register one", op.name, run.stream.device().name()));
  }
  op.launch_cpu(run.stream, run.in, run.out);
  return true;
}

const LaunchTable& cpu_launches() noexcept {
  static constexpr LaunchTable kLaunches = {
#define X(op, ...) launch_##op,
#include "reprise/tensor/op_list.inl"
#undef X
  };
  return kLaunches;
}

}  // namespace reprise::kernels
