#pragma once

#include <span>
#include <string>

#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/trace.h"
#include "reprise/runner/forward.h"

namespace reprise::engine {

/// The tensors that a model's forward may use, as a signature for tracing: the inputs of
/// ForwardInput with open numbers of tokens, requests and logits, and the cache with an open number
/// of blocks. All are borrowed.
[[nodiscard]] program::TraceSignature forward_signature(const models::Parameters& parameters,
                                                        const kv_cache::KvCacheTensors& kv_cache,
                                                        int32_t max_blocks_per_req);

/// The model's own code as a function of these inputs. The model is borrowed.
[[nodiscard]] program::TracedFunction forward_function(models::CausalLM& model);

/// The parameter slots of a traced forward pass, each with the name of its parameter in
/// `parameters`.
[[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
    const program::TracedProgram& traced, const models::Parameters& parameters);

/// The reverse of parameter_slots(): tensors for the slots of a program, which may come from the
/// compile cache.
/// \throws InvalidArgument if the model has no such parameter, or another size of it
[[nodiscard]] program::SlotTensors bind_slots(const program::CompiledProgram& program,
                                              const models::Parameters& parameters,
                                              const kv_cache::KvCacheTensors& kv_cache,
                                              OpExecutor& executor);

}  // namespace reprise::engine
