#pragma once

#include <cstdint>

#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// How prompts of recurrent layers are computed.
enum class PromptStates : uint8_t {
  in_chunks,          // on the tensor cores, where a kernel fits
  token_after_token,  // with the bits of decoding
};

/// Launches gated_delta_rule or selective_state_update: prompts in chunks where a kernel for the
/// type and the sizes exists, then all other tokens one after the other.
bool launch_states(const OpRun& run, PromptStates prompts);

/// Launches causal_conv1d or short_conv, over the tokens of prompts in parallel.
bool launch_state_convolution(const OpRun& run);

}  // namespace reprise::kernels::cuda
