#include "reprise/kernels/cuda/state_launch.h"

#include "reprise/kernels/causal_conv1d/causal_conv1d.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/state_arguments.h"
#include "reprise/kernels/gated_delta_rule/gated_delta_rule.h"
#include "reprise/kernels/selective_state_update/selective_state_update.h"

namespace reprise::kernels::cuda {
namespace {

// A tile of 256 channels and 64 tokens takes some microseconds and reads 32 KiB.
constexpr int64_t kConvTokensPerTile = 64;

/// The kernel with the smallest keys that hold `key_dim` elements.
ChunkKernel chunk_kernel(std::span<const ChunkStateKernel> kernels,
                         int64_t key_dim,
                         int64_t values_per_block) {
  for (const ChunkStateKernel& kernel : kernels) {
    if (key_dim <= kernel.most_key_elements) return {kernel.kernel, values_per_block};
  }
  return {};
}

/// Without a request of several tokens there is nothing to do in chunks. Batches with requests that
/// have none are padded, and hold no prompts.
bool has_prompts(const StateOperands& states, const Tensor& rows) {
  return rows.size(0) > states.seq_lens.size(0);
}

bool launch_delta(const OpRun& run, PromptStates prompts) {
  const auto in = run.operands<OpCode::gated_delta_rule>();
  const StateOperands states = state_operands(in["delta_state"], in);
  const DeltaRuleInputs inputs = {.q = in["q"],
                                  .k = in["k"],
                                  .v = in["v"],
                                  .beta = in["beta"],
                                  .dt = in["dt"],
                                  .a_log = in["a_log"],
                                  .dt_bias = in["dt_bias"],
                                  .neighbours = run.call.attributes.length};
  ChunkKernel chunks;
  // A time step for each element of a key (Kimi) would need a factor for each product.
  const bool has_one_step = inputs.dt.size(1) == states.state.size(1);
  if (prompts == PromptStates::in_chunks && has_one_step && has_prompts(states, inputs.v)) {
    chunks = chunk_kernel(
        delta_chunk_kernels(inputs.v.dtype()), states.state.size(2), kDeltaChunkValues);
  }
  return launch_gated_delta_rule(run.stream, run.kernels, inputs, states, in["out"], chunks);
}

bool launch_selective(const OpRun& run, PromptStates prompts) {
  const auto in = run.operands<OpCode::selective_state_update>();
  const StateOperands states = state_operands(in["ssm_state"], in);
  const SelectiveStateInputs inputs = {.x = in["x"],
                                       .dt = in["dt"],
                                       .b = in["b"],
                                       .c = in["c"],
                                       .a_log = in["a_log"],
                                       .d = in["d"],
                                       .dt_bias = in["dt_bias"]};
  ChunkKernel chunks;
  const bool is_mamba_2 = inputs.a_log.rank() == 1;
  if (prompts == PromptStates::in_chunks && is_mamba_2 && has_prompts(states, inputs.x)) {
    chunks = chunk_kernel(
        selective_chunk_kernels(inputs.x.dtype()), states.state.size(3), kSelectiveChunkValues);
  }
  return launch_selective_state_update(run.stream, run.kernels, inputs, states, in["out"], chunks);
}

template <OpCode kOp>
bool launch_convolution_of(const OpRun& run, const FloatKernels& kernels, const char* op) {
  const auto in = run.operands<kOp>();
  const StateOperands states = state_operands(in["conv_state"], in);
  // The blocks of requests compute this many tokens of each in any case.
  const int64_t with_states = states.seq_lens.size(0) * (in["weight"].size(2) - 1);
  const int64_t tile = in["x"].size(0) > with_states ? kConvTokensPerTile : 0;
  return launch_convolution(
      run.stream, kernels, op, in["x"], in["weight"], in["bias"], states, in["out"], tile);
}

}  // namespace

bool launch_states(const OpRun& run, PromptStates prompts) {
  return run.call.code == OpCode::gated_delta_rule ? launch_delta(run, prompts)
                                                   : launch_selective(run, prompts);
}

bool launch_state_convolution(const OpRun& run) {
  return run.call.code == OpCode::causal_conv1d
             ? launch_convolution_of<OpCode::causal_conv1d>(
                   run, run.kernels.causal_conv1d, "causal_conv1d")
             : launch_convolution_of<OpCode::short_conv>(run, run.kernels.short_conv, "short_conv");
}

}  // namespace reprise::kernels::cuda
