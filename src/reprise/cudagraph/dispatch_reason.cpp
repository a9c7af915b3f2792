#include "reprise/cudagraph/dispatch_reason.h"

#include <array>

namespace reprise::cudagraph {
namespace {

struct ReasonText {
  std::string_view name;
  std::string_view sentence;
};

// In the order of the enumerators.
constexpr std::array<ReasonText, kNumDispatchReasons> kTexts = {{
    {"full_uniform", "a FULL graph for uniform decode batches fits"},
    {"full_general", "a FULL graph for any batch fits"},
    {"piecewise", "PIECEWISE graphs fit and are the routine of this batch"},
    {"piecewise_ragged_drafts",
     "the requests have different numbers of draft tokens, PIECEWISE graphs fit"},
    {"full_larger_size",
     "the tightest FULL graph is not available, the next larger captured one is used"},
    {"piecewise_larger_size",
     "the tightest PIECEWISE graphs are not available, the next larger captured ones are used"},
    {"full_of_mixed_batches",
     "the FULL decode graph is not available, the FULL graph for mixed batches fits"},
    {"piecewise_cascade", "cascade attention cannot be in a FULL graph, PIECEWISE graphs fit"},
    {"piecewise_encoder_outputs",
     "a step with encoder outputs cannot use a FULL graph, PIECEWISE graphs fit"},
    {"piecewise_more_logits_rows",
     "a FULL graph computes one row of logits per request and this step wants more "
     "(log-probabilities "
     "of the prompt), PIECEWISE graphs fit"},
    {"piecewise_full_not_allowed", "FULL is not allowed for this step, PIECEWISE graphs fit"},
    {"piecewise_no_decode_size",
     "no FULL decode graph was planned for this many requests, PIECEWISE graphs fit"},
    {"piecewise_full_retired", "the FULL decode graph was retired, PIECEWISE graphs fit"},
    {"piecewise_full_not_captured",
     "the FULL decode graph is not captured yet, PIECEWISE graphs fit"},
    {"not_initialised", "the dispatcher has no keys yet"},
    {"mode_none", "CUDA graphs are off (cudagraph_mode NONE)"},
    {"only_none_allowed", "only eager execution is allowed for this step"},
    {"empty_batch", "the batch has no tokens"},
    {"exceeds_largest_size", "the batch is larger than the largest captured size"},
    {"cascade", "cascade attention cannot be in a FULL graph and there are no PIECEWISE graphs"},
    {"encoder_outputs",
     "a step with encoder outputs cannot use a FULL graph and there are no PIECEWISE graphs"},
    {"more_logits_rows",
     "the step wants more rows of logits than a graph computes (log-probabilities of the prompt)"},
    {"mode_not_allowed", "the graphs that fit are of a mode that is not allowed for this step"},
    {"lora_count_not_captured", "no graph was captured for this number of active LoRA adapters"},
    {"mixed_batches_run_eager", "this mode captures uniform decode batches only"},
    {"ragged_drafts",
     "the requests have different numbers of draft tokens and this mode captures uniform decode "
     "batches only"},
    {"no_decode_size", "no FULL decode graph was planned for this many requests"},
    {"more_requests_than_captured", "the batch has more requests than any captured graph"},
    {"key_retired", "the graph for this shape was retired"},
    {"key_quarantined",
     "the graph for this shape is quarantined: its replay differed from an eager run"},
    {"key_not_captured", "the graph for this shape is not captured yet"},
}};

}  // namespace

std::string_view name(DispatchReason reason) noexcept {
  return kTexts[static_cast<size_t>(reason)].name;
}

std::string_view to_string(DispatchReason reason) noexcept {
  return kTexts[static_cast<size_t>(reason)].sentence;
}

}  // namespace reprise::cudagraph
