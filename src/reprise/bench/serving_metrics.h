#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "reprise/bench/load_generator.h"

namespace reprise::bench {

/// Statistics of one metric, in milliseconds.
struct Distribution {
  double mean = 0;
  double median = 0;
  double std = 0;
  std::vector<double> percentiles;  // one value per selected percent
};

/// Limits in milliseconds. A request within all limits counts as good; a negative limit is not
/// used.
struct Goodput {
  double ttft_ms = -1;
  double tpot_ms = -1;
  double e2el_ms = -1;

  [[nodiscard]] bool is_asked_for() const noexcept {
    return ttft_ms >= 0 || tpot_ms >= 0 || e2el_ms >= 0;
  }
};

/// The figures that `vllm bench serve` reports, by vLLM's definitions.
struct ServingMetrics {
  int64_t completed = 0;
  int64_t failed = 0;
  double duration = 0;
  int64_t total_input = 0;
  int64_t total_output = 0;
  double request_throughput = 0;
  double request_goodput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  double max_output_tokens_per_s = 0;
  int64_t max_concurrent_requests = 0;
  std::vector<double> percents;  // the selected percents
  Distribution ttft;
  Distribution tpot;
  Distribution itl;
  Distribution e2el;
  Distribution client_queue_time;
  Distribution e2el_including_client_queue;
  std::vector<int64_t> output_lens;  // one per request; 0 for a failed request
};

/// `count_tokens` counts the tokens of an answer if the server sent no usage.
[[nodiscard]] ServingMetrics compute_metrics(
    const LoadResult& result,
    const std::vector<double>& percents,
    const Goodput& goodput,
    const std::function<int64_t(std::string_view text)>& count_tokens);

}  // namespace reprise::bench
