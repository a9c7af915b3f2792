// The dispatcher alone: integers in, decision out. It knows no device, so it works with the graphs
// of any engine. Mode resolution comes from the library reprise_config.
#include <fmt/format.h>

#include "reprise/config/resolution.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

using namespace reprise::config;
using namespace reprise::cudagraph;

int main() {
  // The inputs are the mode that the user asks for and the support of the attention backend. The
  // result is a mode, with reasons.
  ResolutionInputs inputs;
  inputs.compilation.cudagraph_mode = CudagraphMode::FULL;
  inputs.attention = {{"MY_ATTENTION", AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE}};
  inputs.max_num_seqs = 64;
  inputs.max_num_batched_tokens = 512;
  const ResolvedConfig resolved = resolve(inputs);
  fmt::print("asked for FULL, resolved to {}\n", to_string(resolved.mode));
  for (const ResolutionReason& reason : resolved.reasons) {
    fmt::print("  {}: {}\n", reason.rule, reason.text);
  }

  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
  for (const CaptureGroup& group : dispatcher.capture_plan()) {
    fmt::print("capture {} {} keys, {} batches\n",
               group.descriptors.size(),
               to_string(group.mode),
               group.uniform ? "uniform decode" : "mixed");
    for (const BatchDescriptor& key : group.descriptors) {
      // Your capture goes here. If it fails, retire the key: its batches use the next larger key.
      if (key.num_tokens == 48) {
        dispatcher.retire(group.mode, key, "capture failed in this example");
      } else {
        dispatcher.mark_captured(group.mode, key);
      }
    }
  }

  for (const BatchFacts& batch : {BatchFacts{.num_tokens = 1, .num_reqs = 1, .uniform = true},
                                  BatchFacts{.num_tokens = 33, .num_reqs = 33, .uniform = true},
                                  BatchFacts{.num_tokens = 45, .num_reqs = 45, .uniform = true},
                                  BatchFacts{.num_tokens = 100, .num_reqs = 7},
                                  BatchFacts{.num_tokens = 9000, .num_reqs = 60}}) {
    const Decision decision = dispatcher.dispatch(batch);
    fmt::print("{:>4} tokens of {:>2} requests{} -> {:<9} [{}]: {}\n",
               batch.num_tokens,
               batch.num_reqs,
               batch.uniform ? ", uniform" : "         ",
               to_string(decision.mode),
               to_string(decision.descriptor),
               dispatcher.describe(batch, decision));
  }
}
