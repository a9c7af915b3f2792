#pragma once

#include <span>
#include <string>

#include "reprise/attention/attention_layer.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/trace.h"
#include "reprise/runner/forward.h"
#include "reprise/tensor/compile_support.h"

namespace reprise::runner {

/// The signature with which a model's forward is traced. `hidden_input_size`,
/// `has_encoder`: as CausalLM's. The inputs are those of ForwardInput, where T, R and L stand for
/// the numbers of tokens, requests and logits. The caches are the state: first that of keys and
/// values, where B stands for the number of blocks, then that of recurrent layers. All memory is
/// borrowed.
[[nodiscard]] program::TraceSignature forward_signature(const models::Parameters& parameters,
                                                        const attention::LayerCaches& caches,
                                                        int32_t max_blocks_per_req,
                                                        int64_t hidden_input_size = 0,
                                                        bool has_encoder = false);

/// Checks what the model declares in CompileSupport::dynamic_arg_dims against the arguments that
/// forward() has as tensors: input_ids, positions and, of draft heads, hidden_states. A negative
/// dimension counts from the end. Empty: all dimensions that change with the batch are open.
/// \throws program::TraceError: Reason::declaration for a name or dimension that does not exist or
/// never changes, Reason::shape if a dimension that changes with the batch is not declared, so that
/// one program serves only one number of tokens
void require_open_tokens(const CompileSupport& support, const program::TraceSignature& signature);

/// The same signature for batches of `num_tokens` tokens, with the other sizes open.
[[nodiscard]] program::TraceSignature at_num_tokens(program::TraceSignature signature,
                                                    int64_t num_tokens);

/// The model's own code as a function of these inputs. It borrows the model. `adapter_slots`: see
/// ForwardContext; undefined: the forward without adapters.
[[nodiscard]] program::TracedFunction forward_function(models::CausalLM& model,
                                                       Tensor adapter_slots = {});

/// The parameter slots of a traced program: for each slot, the name of its weight in `parameters`.
[[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
    const program::TracedProgram& traced, const models::Parameters& parameters);

/// The reverse of parameter_slots(): finds the weights and caches for the slots of a program, which
/// may come from the compile cache.
/// \throws InvalidArgument if the model has no parameter of that name, or has it with another type
[[nodiscard]] program::SlotTensors bind_slots(const program::CompiledProgram& program,
                                              const models::Parameters& parameters,
                                              const attention::LayerCaches& caches,
                                              OpExecutor& executor);

}  // namespace reprise::runner
