#include "reprise/bench/serving_charts.h"

#include <algorithm>
#include <cmath>

namespace reprise::bench {
namespace {

void thin_out(Series& series) {
  std::sort(series.points.begin(), series.points.end());
  const size_t stride = series.points.size() / kMaxChartPoints + 1;
  size_t kept = 0;
  for (size_t i = 0; i < series.points.size(); i += stride)
    series.points[kept++] = series.points[i];
  series.points.resize(kept);
}

}  // namespace

std::vector<Chart> serving_charts(const LoadResult& result) {
  std::vector<double> ttfts;
  std::vector<double> itls;
  std::vector<double> e2els;
  Series first{.name = "TTFT"};
  Series gaps{.name = "ITL"};
  const auto num_seconds = static_cast<size_t>(std::ceil(result.duration)) + 1;
  std::vector<double> chunks(num_seconds);
  std::vector<std::pair<double, double>> changes;
  for (const RequestOutcome& outcome : result.outcomes) {
    if (!outcome.success) continue;
    ttfts.push_back(outcome.ttft * 1e3);
    e2els.push_back(outcome.latency * 1e3);
    double time = outcome.start_time + outcome.ttft;
    const auto count = [&] { chunks[std::min(static_cast<size_t>(time), num_seconds - 1)] += 1; };
    count();
    first.points.emplace_back(time, outcome.ttft * 1e3);
    for (const double gap : outcome.itl) {
      time += gap;
      count();
      itls.push_back(gap * 1e3);
      gaps.points.emplace_back(time, gap * 1e3);
    }
    changes.emplace_back(outcome.start_time, 1);
    changes.emplace_back(outcome.start_time + outcome.latency, -1);
  }
  thin_out(gaps);
  Series throughput{.name = "chunks"};
  for (size_t second = 0; second < num_seconds; ++second) {
    throughput.points.emplace_back(static_cast<double>(second), chunks[second]);
  }
  std::sort(changes.begin(), changes.end());
  Series running{.name = "requests"};
  double now = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    running.points.emplace_back(time, now);
  }
  return {
      {"Time to first token and end-to-end latency",
       "ms",
       "% of requests",
       Marks::line,
       {cumulative("TTFT", std::move(ttfts)), cumulative("E2EL", std::move(e2els))}},
      {"Inter-token latency", "ms", "% of gaps", Marks::line, {cumulative("ITL", std::move(itls))}},
      {"TTFT over time", "seconds since the start", "ms", Marks::dots, {first}},
      {"ITL over time", "seconds since the start", "ms", Marks::dots, {gaps}},
      {"Output chunks per second",
       "seconds since the start",
       "chunks/s",
       Marks::steps,
       {throughput}},
      {"Requests being answered", "seconds since the start", "requests", Marks::steps, {running}}};
}

}  // namespace reprise::bench
