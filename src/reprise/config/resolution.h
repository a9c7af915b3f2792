#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/config/compilation_config.h"
#include "reprise/config/resolved_config.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/lora_cases.h"

namespace reprise::config {

/// All inputs of the resolved mode.
struct ResolutionInputs {
  CompilationConfig compilation;
  OptimizationLevel optimization_level = OptimizationLevel::O2;
  bool enforce_eager = false;
  bool pooling = false;
  bool encoder_decoder = false;
  std::vector<cudagraph::AttentionBackendSupport>
      attention;  // one per attention group; empty = no attention
  bool cascade_enabled = false;
  int32_t num_speculative_tokens = 0;
  int32_t tensor_parallel_size = 1;
  cudagraph::LoraOptions lora;
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 8192;
  cudagraph::PerformanceMode performance_mode = cudagraph::PerformanceMode::balanced;
  int32_t default_max_capture_size = 512;
  bool platform_supports_graphs = true;
  /// A capture can break at split points while the model runs, so PIECEWISE needs no compiler.
  bool breakable = true;
  /// The engine has a KV connector with layer-wise asynchronous work, which cannot be captured.
  bool kv_connector_requires_piecewise = false;
  /// The number of cache blocks for per-request recurrent state; set only for models with such
  /// state.
  std::optional<int32_t> num_recurrent_state_blocks;
};

/// Resolves the requested configuration into the one that the engine uses. Pure: equal inputs give
/// equal results on every rank. Each change of the mode adds a reason with its rule id; each
/// downgrade of an explicit setting also adds a warning.
/// \throws InvalidArgument when the request cannot be met by any downgrade.
[[nodiscard]] ResolvedConfig resolve(const ResolutionInputs& inputs);

/// The dispatcher options of a resolved configuration.
[[nodiscard]] cudagraph::DispatcherOptions dispatcher_options(const ResolutionInputs& inputs,
                                                              const ResolvedConfig& resolved);

}  // namespace reprise::config
