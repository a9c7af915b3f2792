#pragma once

#include <optional>
#include <string>

#include "reprise/api/engine_stats.h"

namespace reprise::server {

/// vLLM's periodic log line about draft tokens, in the same words, because scripts search for it.
/// The class reads no clock and prints nothing.
class SpeculationLog {
 public:
  /// The line for the `seconds` since the previous call; nullopt if no drafts were verified.
  [[nodiscard]] std::optional<std::string> next_line(const api::EngineStats& stats, double seconds);

 private:
  decltype(api::EngineStats::speculation) told_;  // the counts of the previous lines
};

}  // namespace reprise::server
