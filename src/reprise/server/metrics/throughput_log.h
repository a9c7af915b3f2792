#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "reprise/api/engine_stats.h"

namespace reprise::server {

/// vLLM's periodic log line about the engine, in the same words, because scripts search for it. The
/// class reads no clock and prints nothing.
class ThroughputLog {
 public:
  /// The line for the `seconds` since the previous call; nullopt while no request runs. The first
  /// line after the last token reports 0, so that a log does not end with an old rate.
  [[nodiscard]] std::optional<std::string> next_line(const api::EngineStats& stats, double seconds);

 private:
  /// The hit rate covers this many recent requests, the same as vLLM's.
  static constexpr uint64_t kRecentRequests = 1000;
  struct Interval {
    uint64_t requests = 0;
    uint64_t queries = 0;
    uint64_t hits = 0;
  };
  void observe_prefix_cache(const api::EngineStats& stats);

  uint64_t prompt_tokens_ = 0;
  uint64_t generation_tokens_ = 0;
  bool was_busy_ = false;
  Interval total_;   // since the start
  Interval recent_;  // sum of intervals_
  std::deque<Interval> intervals_;
};

}  // namespace reprise::server
