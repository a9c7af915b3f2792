#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/config/resolution.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::config {

/// One hypothetical batch, as written on the command line:
///   decode:R        R requests, each with the decode query length (1 + speculative tokens)
///   uniform:RxQ     R requests of Q tokens past their prompts; a uniform decode batch only if
///                   there are graphs for Q tokens per request
///   mixed:T         T tokens of prefill and decode over min(T, max_num_seqs) requests
///   mixed:T/R       the same over R requests
///   prefill:T       one prompt (chunk) of T tokens
/// Each form may be followed by "+cascade", "+encoder" or "+lora=N".
/// \throws InvalidArgument that lists these forms
[[nodiscard]] cudagraph::BatchFacts parse_batch_spec(std::string_view spec,
                                                     int32_t uniform_decode_query_len,
                                                     int32_t max_num_seqs);

/// The sizes of the graphs of a draft model, in tokens.
struct DraftModelSizes {
  std::vector<int32_t> mixed;   // prompts
  std::vector<int32_t> first;   // the step that gives the first drafts
  std::vector<int32_t> others;  // each further step
};

struct ExplainedBatch {
  std::string batch;  // the spec
  cudagraph::BatchFacts facts;
  cudagraph::Decision decision;
  std::string reason;
};

/// The output of `reprise explain`: the compile level, the resolved mode with the rules that were
/// applied, the capture sizes, and the decision for each batch if all planned graphs were captured.
struct Explanation {
  std::optional<cudagraph::CudagraphMode> requested;
  std::optional<ResolvedConfig> resolved;  // unset if `error` is set
  std::string level_reason;                // the setting that chose the compile level
  std::vector<int32_t> mixed_sizes;        // token counts of the mixed keys
  std::vector<int32_t> decode_sizes;       // token counts of the uniform decode keys
  /// With speculation: token counts of the keys for uniform decode steps without drafts.
  std::vector<int32_t> draftless_sizes;
  /// The same for steps with fewer drafts than num_speculative_tokens.
  std::vector<cudagraph::DecodeWidth> fewer_drafts;
  /// Only with a draft model. The caller of explain() sets it.
  std::optional<DraftModelSizes> draft_model;
  std::vector<ExplainedBatch> decisions;
  std::optional<std::string> error;
  /// Whose attention kernels a GPU runs for the model, and why. Empty: no model is given, or no GPU
  /// is used. The caller of explain() sets it.
  std::string attention_kernels;
};

/// Does not throw InvalidArgument: if a configuration or a batch is invalid, its message is in
/// `error`.
[[nodiscard]] Explanation explain(const ResolutionInputs& inputs,
                                  std::span<const std::string> batch_specs);

/// "layers 0-2: NAME, support LEVEL".
[[nodiscard]] std::string attention_group_text(const cudagraph::AttentionBackendSupport& group);
/// One sentence that names the backend whose support decides, for a model with several backends.
[[nodiscard]] std::string weakest_text(const ResolvedConfig& resolved);

/// Keys: requested, resolved, compilation_mode, level, level_reason, attention, reasons, warnings,
/// capture_sizes.{mixed,decode,decode_without_drafts,decode_with_fewer_drafts,draft_model},
/// decisions[], error.
[[nodiscard]] Json to_json(const Explanation& explanation);
/// The same explanation as readable text.
[[nodiscard]] std::string to_text(const Explanation& explanation);

}  // namespace reprise::config
