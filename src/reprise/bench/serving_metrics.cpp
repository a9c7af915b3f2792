#include "reprise/bench/serving_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reprise/bench/statistics.h"

namespace reprise::bench {
namespace {

Distribution distribution_of(const std::vector<double>& seconds,
                             const std::vector<double>& percents) {
  Distribution found{.mean = mean(seconds) * 1e3,
                     .median = median(seconds) * 1e3,
                     .std = standard_deviation(seconds) * 1e3};
  for (const double percent : percents) {
    found.percentiles.push_back(percentile(seconds, percent) * 1e3);
  }
  return found;
}

// One chunk counts as one token here, as in vLLM.
double peak_tokens_per_second(const std::vector<const RequestOutcome*>& good) {
  double begin = good[0]->start_time;
  double end = 0;
  for (const RequestOutcome* outcome : good) {
    begin = std::min(begin, outcome->start_time);
    end = std::max(end, outcome->start_time + outcome->latency);
  }
  std::vector<int64_t> buckets(static_cast<size_t>(std::ceil(end - begin)) + 1);
  for (const RequestOutcome* outcome : good) {
    double time = outcome->start_time + outcome->ttft;
    const auto count = [&] {
      const auto bucket = static_cast<size_t>(std::max(time - begin, 0.0));
      if (bucket < buckets.size()) ++buckets[bucket];
    };
    count();
    for (const double gap : outcome->itl) {
      time += gap;
      count();
    }
  }
  return static_cast<double>(*std::max_element(buckets.begin(), buckets.end()));
}

// The intervals are half-open: a request that ends when another one starts does not overlap it.
int64_t peak_concurrency(const std::vector<const RequestOutcome*>& good) {
  std::vector<std::pair<double, int>> changes;
  for (const RequestOutcome* outcome : good) {
    changes.emplace_back(outcome->start_time, 1);
    changes.emplace_back(outcome->start_time + outcome->latency, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0;
  int64_t peak = 0;
  for (const auto& [time, change] : changes) {
    now += change;
    peak = std::max(peak, now);
  }
  return peak;
}

bool is_good(const Goodput& goodput, double ttft, double tpot, double e2el) {
  const auto holds = [](double limit_ms, double seconds) {
    return limit_ms < 0 || limit_ms / 1e3 >= seconds;
  };
  return holds(goodput.ttft_ms, ttft) && holds(goodput.tpot_ms, tpot) &&
         holds(goodput.e2el_ms, e2el);
}

}  // namespace

ServingMetrics compute_metrics(const LoadResult& result,
                               const std::vector<double>& percents,
                               const Goodput& goodput,
                               const std::function<int64_t(std::string_view text)>& count_tokens) {
  ServingMetrics metrics{.duration = result.duration, .percents = percents};
  std::vector<double> ttfts;
  std::vector<double> tpots;
  std::vector<double> itls;
  std::vector<double> e2els;
  std::vector<double> queue_times;
  std::vector<double> e2els_with_queue;
  std::vector<const RequestOutcome*> good;
  int64_t num_good = 0;
  for (const RequestOutcome& outcome : result.outcomes) {
    if (!outcome.success) {
      ++metrics.failed;
      metrics.output_lens.push_back(0);
      continue;
    }
    const int64_t output_len =
        outcome.output_tokens > 0 ? outcome.output_tokens : count_tokens(outcome.generated_text);
    metrics.output_lens.push_back(output_len);
    metrics.total_input += outcome.prompt_len;
    metrics.total_output += output_len;
    double tpot = 0;  // 0 for an answer of one token; such a value counts only for goodput
    if (output_len > 1) {
      tpot = (outcome.latency - outcome.ttft) / static_cast<double>(output_len - 1);
      tpots.push_back(tpot);
    }
    itls.insert(itls.end(), outcome.itl.begin(), outcome.itl.end());
    ttfts.push_back(outcome.ttft);
    e2els.push_back(outcome.latency);
    queue_times.push_back(outcome.queue_time);
    e2els_with_queue.push_back(outcome.latency + outcome.queue_time);
    good.push_back(&outcome);
    ++metrics.completed;
    if (goodput.is_asked_for() && is_good(goodput, outcome.ttft, tpot, outcome.latency)) ++num_good;
  }
  const double duration = std::max(result.duration, 1e-9);
  metrics.request_throughput = static_cast<double>(metrics.completed) / duration;
  metrics.request_goodput = static_cast<double>(num_good) / duration;
  metrics.output_throughput = static_cast<double>(metrics.total_output) / duration;
  metrics.total_token_throughput =
      static_cast<double>(metrics.total_input + metrics.total_output) / duration;
  if (!good.empty()) {
    metrics.max_output_tokens_per_s = peak_tokens_per_second(good);
    metrics.max_concurrent_requests = peak_concurrency(good);
  }
  metrics.ttft = distribution_of(ttfts, percents);
  metrics.tpot = distribution_of(tpots, percents);
  metrics.itl = distribution_of(itls, percents);
  metrics.e2el = distribution_of(e2els, percents);
  metrics.client_queue_time = distribution_of(queue_times, percents);
  metrics.e2el_including_client_queue = distribution_of(e2els_with_queue, percents);
  return metrics;
}

}  // namespace reprise::bench
