#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/config/compilation_config.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/lora_cases.h"

namespace reprise::config {

/// Everything the resolved mode depends on.
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
  /// Capture can be broken at split points while the model runs: PIECEWISE then needs no compiler.
  bool breakable = true;
  /// A KV connector with layer-wise asynchronous work, which cannot be captured.
  bool kv_connector_requires_piecewise = false;
  /// Set for models with per-request recurrent state: cache blocks available to them.
  std::optional<int32_t> num_recurrent_state_blocks;
};

/// One applied rule. Ids are those of the behaviour reference: A = configuration, B = splitting, C
/// = attention support, S = capture sizes.
struct ResolutionReason {
  std::string rule;
  std::string text;
  cudagraph::CudagraphMode before = cudagraph::CudagraphMode::NONE;
  cudagraph::CudagraphMode after = cudagraph::CudagraphMode::NONE;

  friend bool operator==(const ResolutionReason&, const ResolutionReason&) = default;
};

/// The outcome: what will be captured and dispatched, and why.
struct ResolvedConfig {
  std::optional<cudagraph::CudagraphMode> requested;  // unset = the user left the choice to us
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::NONE;
  /// The level asked for; what this build can execute is the engine's to report.
  CompilationMode compilation_mode = CompilationMode::NONE;
  std::vector<std::string> splitting_ops;
  bool piecewise_available = false;
  cudagraph::CaptureSizes capture_sizes;
  std::vector<int32_t> compile_sizes;
  std::vector<std::string> custom_ops;
  PassConfig pass_config;
  int32_t num_of_warmups = 0;
  int32_t uniform_decode_query_len = 1;
  cudagraph::AttentionBackendSupport weakest_attention;
  std::vector<ResolutionReason> reasons;
  std::vector<std::string> warnings;
};

/// Turns a request into what will happen. Pure: equal inputs give equal results on every rank. Each
/// change of the mode leaves a reason with its rule id, each downgrade of an explicit wish also a
/// warning.
/// \throws InvalidArgument when the request cannot be met by any downgrade.
[[nodiscard]] ResolvedConfig resolve(const ResolutionInputs& inputs);

/// The dispatcher options of a resolved configuration.
[[nodiscard]] cudagraph::DispatcherOptions dispatcher_options(const ResolutionInputs& inputs,
                                                              const ResolvedConfig& resolved);

}  // namespace reprise::config
