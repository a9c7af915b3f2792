#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/config/compilation_config.h"
#include "reprise/config/extension_names.h"
#include "reprise/config/resolved_config.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/lora_cases.h"

namespace reprise::config {

/// Everything on which the resolution depends.
struct ResolutionInputs {
  CompilationConfig compilation;
  ExtensionNames extensions;  // that `compilation` may name
  OptimizationLevel optimization_level = OptimizationLevel::O2;
  bool enforce_eager = false;
  bool pooling = false;
  bool encoder_decoder = false;
  std::vector<cudagraph::AttentionBackendSupport>
      attention;  // one entry per attention group; empty: the model has no attention
  bool cascade_enabled = false;
  int32_t num_speculative_tokens = 0;
  /// The numbers of drafts from which a step chooses, by its number of requests; ascending. Empty:
  /// the number of drafts is always num_speculative_tokens.
  std::vector<int32_t> scheduled_drafts;
  int32_t tensor_parallel_size = 1;
  cudagraph::LoraOptions lora;
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 8192;
  cudagraph::PerformanceMode performance_mode = cudagraph::PerformanceMode::balanced;
  int32_t default_max_capture_size = 512;
  bool platform_supports_graphs = true;
  /// Captures can be interrupted at split points, so PIECEWISE needs no compiler.
  bool breakable = true;
  /// The engine has a KV connector that transfers layers asynchronously. This work cannot be
  /// captured in a FULL graph.
  bool kv_connector_requires_piecewise = false;
  /// The number of cache blocks for the recurrent state of requests. Unset for models without such
  /// state.
  std::optional<int32_t> num_recurrent_state_blocks;
};

/// Turns the requested configuration into the one that the engine uses. A pure function: equal
/// inputs give equal results on every rank. Each change of the mode adds a reason with the id of
/// its rule. If an explicit setting is downgraded, a warning is added too.
/// \throws InvalidArgument if no downgrade makes the request possible
[[nodiscard]] ResolvedConfig resolve(const ResolutionInputs& inputs);

/// The dispatcher options of a resolved configuration.
[[nodiscard]] cudagraph::DispatcherOptions dispatcher_options(const ResolutionInputs& inputs,
                                                              const ResolvedConfig& resolved);

}  // namespace reprise::config
