#include "reprise/server/metrics/speculation_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <vector>

namespace reprise::server {

std::optional<std::string> SpeculationLog::next_line(const api::EngineStats& stats,
                                                     double seconds) {
  const auto recent = stats.speculation.since(told_);
  if (recent.num_drafts == 0 || seconds <= 0) return std::nullopt;
  told_ = stats.speculation;
  std::vector<double> rates;
  for (const uint64_t accepted : recent.num_accepted_tokens_per_pos) {
    rates.push_back(static_cast<double>(accepted) / static_cast<double>(recent.num_drafts));
  }
  const auto accepted = static_cast<double>(recent.num_accepted_tokens);
  const auto drafted = static_cast<double>(recent.num_draft_tokens);
  return fmt::format(
      "SpecDecoding metrics: Mean acceptance length: {:.2f}, Accepted throughput: {:.2f} tokens/s, "
      "Drafted throughput: {:.2f} tokens/s, Accepted: {} tokens, Drafted: {} tokens, Per-position "
      "acceptance rate: {:.3f}, Avg Draft acceptance rate: {:.1f}%",
      recent.mean_acceptance_length(),
      accepted / seconds,
      drafted / seconds,
      recent.num_accepted_tokens,
      recent.num_draft_tokens,
      fmt::join(rates, ", "),
      100 * accepted / drafted);
}

}  // namespace reprise::server
