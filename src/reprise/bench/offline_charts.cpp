#include "reprise/bench/offline_charts.h"

#include <algorithm>

namespace reprise::bench {
namespace {

constexpr const char* kSinceStart = "seconds since the start";

/// The values in order, numbered from 1.
Series in_order(std::string name, const std::vector<double>& values) {
  Series series{.name = std::move(name)};
  for (size_t i = 0; i < values.size(); ++i) {
    series.points.emplace_back(static_cast<double>(i + 1), values[i]);
  }
  return series;
}

Chart rounds_chart(std::string title,
                   std::string unit,
                   std::span<const Rounds> contenders,
                   std::vector<double> Rounds::* values) {
  Chart chart{.title = std::move(title), .x_label = "round", .y_label = std::move(unit)};
  for (const Rounds& contender : contenders) {
    chart.series.push_back(in_order(contender.name, contender.*values));
  }
  return chart;
}

}  // namespace

std::vector<Chart> rounds_charts(std::span<const Rounds> contenders) {
  return {rounds_chart("Output tokens", "tokens/s", contenders, &Rounds::tokens_per_second),
          rounds_chart("Time per output token", "ms", contenders, &Rounds::tpot_ms),
          rounds_chart("Time to first token", "ms", contenders, &Rounds::ttft_ms)};
}

std::vector<Chart> latency_charts(const std::vector<double>& latencies,
                                  const std::vector<double>& first_token_latencies) {
  return {{"Distribution",
           "seconds",
           "% of batches",
           Marks::line,
           {cumulative("first token", first_token_latencies), cumulative("whole", latencies)}},
          {"Batch by batch",
           "batch",
           "seconds",
           Marks::line,
           {in_order("first token", first_token_latencies), in_order("whole", latencies)}}};
}

std::vector<Chart> throughput_charts(std::vector<std::pair<double, int64_t>> ended_requests) {
  std::sort(ended_requests.begin(), ended_requests.end());
  Series requests{.name = "requests", .points = {{0, 0}}};
  Series tokens{.name = "tokens", .points = {{0, 0}}};
  for (const auto& [time, num_tokens] : ended_requests) {
    requests.points.emplace_back(time, requests.points.back().second + 1);
    tokens.points.emplace_back(time, tokens.points.back().second + static_cast<double>(num_tokens));
  }
  return {{"Requests that have ended", kSinceStart, "requests", Marks::steps, {requests}},
          {"Output tokens of these requests", kSinceStart, "tokens", Marks::steps, {tokens}}};
}

std::vector<Chart> answers_charts(std::span<const Answers> contenders) {
  Chart chart{.title = "Correct answers", .x_label = "problems", .y_label = "correct"};
  for (const Answers& contender : contenders) {
    Series series{.name = contender.name, .points = {{0, 0}}};
    for (const bool is_correct : contender.are_correct) {
      const auto [problems, correct] = series.points.back();
      series.points.emplace_back(problems + 1, correct + (is_correct ? 1 : 0));
    }
    chart.series.push_back(std::move(series));
  }
  return {std::move(chart)};
}

}  // namespace reprise::bench
