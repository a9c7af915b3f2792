#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reprise/cudagraph/cudagraph_dispatcher.h"

// The part of the dispatcher that explains a decision to people.
namespace reprise::cudagraph {

std::string CudagraphDispatcher::describe(const BatchFacts& batch, const Decision& decision) const {
  std::string text(to_string(decision.reason));
  const int32_t lora_case = initialised_ ? lora_cases_.case_index(batch.num_active_loras) : -1;
  const auto add_cause = [&](LookUp found) {
    if (found.planned < 0) return;
    const Key& key = keys_[static_cast<size_t>(found.planned)];
    text += fmt::format(" ({} {}", to_string(key.mode), to_string(key.descriptor));
    if (key.state == KeyState::retired) text += ": " + key.retired_because;
    text += ")";
  };
  switch (decision.reason) {
    case DispatchReason::exceeds_largest_size:
      text += fmt::format(" ({} > {})", batch.num_tokens, largest_tokens_);
      break;
    case DispatchReason::more_requests_than_captured:
      text += fmt::format(" ({} > max_num_seqs {})", batch.num_reqs, options_.max_num_seqs);
      break;
    case DispatchReason::lora_count_not_captured:
      text += fmt::format(" ({}; captured counts: {})",
                          batch.num_active_loras,
                          fmt::join(lora_cases_.counts(), ", "));
      break;
    case DispatchReason::piecewise_no_decode_size:
    case DispatchReason::no_decode_size: {
      const int32_t width = std::max(decode_width_of(batch), 0);
      const std::vector<int32_t>& sizes = decode_sizes_of(width);
      text += sizes.empty()
                  ? std::string(" (no decode sizes at all)")
                  : fmt::format(" (decode sizes go up to {} requests)",
                                sizes.back() / decode_query_lens_[static_cast<size_t>(width)]);
      break;
    }
    case DispatchReason::piecewise_full_retired:
    case DispatchReason::piecewise_full_not_captured:
    case DispatchReason::full_larger_size:
      add_cause(look_up_full(batch, lora_case));
      break;
    case DispatchReason::piecewise_larger_size:
      add_cause(look_up_piecewise(batch, lora_case));
      break;
    case DispatchReason::key_retired:
    case DispatchReason::key_not_captured: {
      const LookUp piecewise = look_up_piecewise(batch, lora_case);
      add_cause(piecewise.planned >= 0 ? piecewise : look_up_full(batch, lora_case));
      break;
    }
    default:
      break;
  }
  return text;
}

}  // namespace reprise::cudagraph
