#include "reprise/kernels/selective_state_update/selective_state_update.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/selective_state_update/selective_state_update_arguments.h"

namespace reprise::kernels {
namespace {

// Decay rates of a head: one, or one for each element of a row of its state.
int64_t num_decays(const Tensor& a_log) { return a_log.rank() == 1 ? 1 : a_log.size(1); }

SelectiveStateUpdateArguments arguments_of(const SelectiveStateInputs& in,
                                           const StateOperands& states,
                                           const Tensor& out) {
  for (const Tensor* rows : {&in.x, &in.dt, &in.b, &in.c}) {
    require_dense_rows(*rows, "selective_state_update");
  }
  const int64_t heads = states.state.size(1);
  const int64_t head_dim = states.state.size(2);
  const int64_t state_size = states.state.size(3);
  REPRISE_ASSERT(
      in.a_log.is_dense() && out.is_dense() && state_size <= kMaxStateSize,
      "selective_state_update: a state of {} elements is too large, or a tensor is not dense",
      state_size);
  return {
      .x = in.x.data(),
      .dt = in.dt.data(),
      .b = in.b.data(),
      .c = in.c.data(),
      .a_log = in.a_log.data_as<float>(),
      .d = in.d.data_as<float>(),
      .dt_bias = in.dt_bias.data_as<float>(),
      .states = state_arguments(states, in.x.size(0)),
      .out = out.data(),
      .x_stride = in.x.stride(0),
      .dt_stride = in.dt.stride(0),
      .b_stride = in.b.stride(0),
      .c_stride = in.c.stride(0),
      .heads = heads,
      .head_dim = head_dim,
      .state_size = state_size,
      .heads_per_group = heads / max_of(1, in.b.size(1) / state_size),
      .decays = num_decays(in.a_log),
      .heads_per_block = max_of(1, kElementsPerBlock / (head_dim * state_size)),
  };
}

}  // namespace

bool launch_selective_state_update(device::Stream& stream,
                                   const KernelTable& kernels,
                                   const SelectiveStateInputs& in,
                                   const StateOperands& states,
                                   const Tensor& out,
                                   const ChunkKernel& chunks) {
  SelectiveStateUpdateArguments arguments = arguments_of(in, states, out);
  std::array uses{writes(out),
                  changes(states.state),
                  reads(in.x),
                  reads(in.dt),
                  reads(in.b),
                  reads(in.c),
                  reads(in.a_log),
                  reads(in.d),
                  reads(in.dt_bias),
                  reads(states.state_indices),
                  reads(states.query_start_loc),
                  reads(states.seq_lens)};
  const int64_t requests = states.seq_lens.size(0);
  if (chunks.kernel != nullptr) {
    arguments.states.has_chunks = 1;
    const int64_t blocks =
        requests * arguments.heads * ceil_div(arguments.head_dim, chunks.values_per_block);
    (void)launch(stream, *chunks.kernel, static_cast<uint32_t>(blocks), arguments, uses);
    uses[0] = changes(out);  // the second launch keeps the rows of the first one
  }
  return launch(
      stream,
      kernel_for(kernels.selective_state_update, in.x.dtype()),
      static_cast<uint32_t>(requests * ceil_div(arguments.heads, arguments.heads_per_block)),
      arguments,
      uses);
}

bool launch_selective_state_update(const OpRun& run) {
  const auto in = run.operands<OpCode::selective_state_update>();
  return launch_selective_state_update(run.stream,
                                       run.kernels,
                                       {.x = in["x"],
                                        .dt = in["dt"],
                                        .b = in["b"],
                                        .c = in["c"],
                                        .a_log = in["a_log"],
                                        .d = in["d"],
                                        .dt_bias = in["dt_bias"]},
                                       state_operands(in["ssm_state"], in),
                                       in["out"]);
}

}  // namespace reprise::kernels
