#include "reprise/kernels/gemma_rms_norm/gemma_rms_norm.h"

#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rms_norm/rms_norm.h"

namespace reprise::kernels {

bool launch_gemma_rms_norm(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& x,
                           const Tensor& weight,
                           float epsilon,
                           const Tensor& out) {
  return launch_rms_norm(stream, kernels.gemma_rms_norm, "gemma_rms_norm", x, weight, epsilon, out);
}

bool launch_gemma_rms_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::gemma_rms_norm>();
  return launch_gemma_rms_norm(
      run.stream, run.kernels, in["x"], in["weight"], run.call.attributes.epsilon, run.out[0]);
}

}  // namespace reprise::kernels
