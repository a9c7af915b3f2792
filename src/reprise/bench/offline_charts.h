#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/bench/chart.h"

namespace reprise::bench {

/// The rounds of one contender, in the order in which they were measured.
struct Rounds {
  std::string name;
  std::vector<double> tokens_per_second;
  std::vector<double> tpot_ms;
  std::vector<double> ttft_ms;
};

/// The answers of one contender to a list of problems.
struct Answers {
  std::string name;
  std::vector<bool> are_correct;
};

/// Charts of `bench modes`: each round of each mode. At most eight contenders.
[[nodiscard]] std::vector<Chart> rounds_charts(std::span<const Rounds> contenders);
/// Charts of `bench latency`: one value per batch, in seconds.
[[nodiscard]] std::vector<Chart> latency_charts(const std::vector<double>& latencies,
                                                const std::vector<double>& first_token_latencies);
/// Charts of `bench throughput`: when each request ended, in seconds since the start and in any
/// order, and its output tokens.
[[nodiscard]] std::vector<Chart> throughput_charts(
    std::vector<std::pair<double, int64_t>> ended_requests);
/// Charts of `eval`: the correct answers of each contender so far.
[[nodiscard]] std::vector<Chart> answers_charts(std::span<const Answers> contenders);

}  // namespace reprise::bench
