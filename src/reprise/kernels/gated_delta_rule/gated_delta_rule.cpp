#include "reprise/kernels/gated_delta_rule/gated_delta_rule.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/gated_delta_rule/gated_delta_rule_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/selective_state_update/selective_state_update_arguments.h"

namespace reprise::kernels {

namespace {

GatedDeltaRuleArguments arguments_of(const DeltaRuleInputs& in,
                                     const StateOperands& states,
                                     const Tensor& out) {
  for (const Tensor* rows : {&in.q, &in.k, &in.v, &in.beta, &in.dt}) {
    require_dense_rows(*rows, "gated_delta_rule");
  }
  const int64_t heads = states.state.size(1);
  const int64_t key_dim = states.state.size(2);
  const int64_t groups = max_of(1, in.k.size(1) / key_dim);
  REPRISE_ASSERT(out.is_dense() && key_dim <= kMaxStateSize,
                 "gated_delta_rule: keys of {} elements are too long, or a tensor is not dense",
                 key_dim);
  REPRISE_ASSERT(in.neighbours > 0 && heads % (groups * in.neighbours) == 0,
                 "gated_delta_rule: {} neighbours in each of {} groups do not divide {} heads",
                 in.neighbours,
                 groups,
                 heads);
  return {
      .q = in.q.data(),
      .k = in.k.data(),
      .v = in.v.data(),
      .beta = in.beta.data(),
      .dt = in.dt.data(),
      .a_log = in.a_log.data_as<float>(),
      .dt_bias = in.dt_bias.data_as<float>(),
      .states = state_arguments(states, in.v.size(0)),
      .out = out.data(),
      .q_stride = in.q.stride(0),
      .k_stride = in.k.stride(0),
      .v_stride = in.v.stride(0),
      .beta_stride = in.beta.stride(0),
      .dt_stride = in.dt.stride(0),
      .heads = heads,
      .key_dim = key_dim,
      .value_dim = states.state.size(3),
      .groups = groups,
      .steps_per_head = in.dt.size(1) / max_of(1, heads),
      .neighbours = in.neighbours,
  };
}

}  // namespace

bool launch_gated_delta_rule(device::Stream& stream,
                             const KernelTable& kernels,
                             const DeltaRuleInputs& in,
                             const StateOperands& states,
                             const Tensor& out,
                             const ChunkKernel& chunks) {
  GatedDeltaRuleArguments arguments = arguments_of(in, states, out);
  std::array uses{writes(out),
                  changes(states.state),
                  reads(in.q),
                  reads(in.k),
                  reads(in.v),
                  reads(in.beta),
                  reads(in.dt),
                  reads(in.a_log),
                  reads(in.dt_bias),
                  reads(states.state_indices),
                  reads(states.query_start_loc),
                  reads(states.seq_lens)};
  const int64_t blocks = states.seq_lens.size(0) * arguments.heads;
  if (chunks.kernel != nullptr) {
    arguments.states.has_chunks = 1;
    const int64_t parts = ceil_div(arguments.value_dim, chunks.values_per_block);
    (void)launch(stream, *chunks.kernel, static_cast<uint32_t>(blocks * parts), arguments, uses);
    uses[0] = changes(out);  // the second launch keeps the rows of the first one
  }
  return launch(stream,
                kernel_for(kernels.gated_delta_rule, in.v.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                uses);
}

bool launch_gated_delta_rule(const OpRun& run) {
  const auto in = run.operands<OpCode::gated_delta_rule>();
  return launch_gated_delta_rule(run.stream,
                                 run.kernels,
                                 {.q = in["q"],
                                  .k = in["k"],
                                  .v = in["v"],
                                  .beta = in["beta"],
                                  .dt = in["dt"],
                                  .a_log = in["a_log"],
                                  .dt_bias = in["dt_bias"],
                                  .neighbours = run.call.attributes.length},
                                 state_operands(in["delta_state"], in),
                                 in["out"]);
}

}  // namespace reprise::kernels
