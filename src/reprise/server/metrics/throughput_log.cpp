#include "reprise/server/metrics/throughput_log.h"

#include <fmt/format.h>

#include <utility>

namespace reprise::server {

void ThroughputLog::observe_prefix_cache(const api::EngineStats& stats) {
  const Interval now{.requests = stats.requests.time_to_first_token.count(),
                     .queries = stats.prefix_cache_queries,
                     .hits = stats.prefix_cache_hits};
  const Interval added{.requests = now.requests - total_.requests,
                       .queries = now.queries - total_.queries,
                       .hits = now.hits - total_.hits};
  total_ = now;
  if (added.queries == 0) return;
  intervals_.push_back(added);
  recent_.requests += added.requests;
  recent_.queries += added.queries;
  recent_.hits += added.hits;
  while (intervals_.size() > 1 && recent_.requests > kRecentRequests) {
    recent_.requests -= intervals_.front().requests;
    recent_.queries -= intervals_.front().queries;
    recent_.hits -= intervals_.front().hits;
    intervals_.pop_front();
  }
}

std::optional<std::string> ThroughputLog::next_line(const api::EngineStats& stats, double seconds) {
  const uint64_t prompt = stats.prompt_tokens - std::exchange(prompt_tokens_, stats.prompt_tokens);
  const uint64_t generated =
      stats.generation_tokens - std::exchange(generation_tokens_, stats.generation_tokens);
  observe_prefix_cache(stats);
  const bool is_busy = prompt + generated > 0 || stats.num_requests_running > 0;
  const bool was_busy = std::exchange(was_busy_, is_busy);
  if ((!is_busy && !was_busy) || seconds <= 0) return std::nullopt;
  const double hit_rate = recent_.queries > 0 ? 100 * static_cast<double>(recent_.hits) /
                                                    static_cast<double>(recent_.queries)
                                              : 0;
  return fmt::format(
      "Engine 000: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
      "tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, Prefix cache hit "
      "rate: {:.1f}%",
      static_cast<double>(prompt) / seconds,
      static_cast<double>(generated) / seconds,
      stats.num_requests_running,
      stats.num_requests_waiting,
      100 * stats.kv_cache_usage,
      hit_rate);
}

}  // namespace reprise::server
