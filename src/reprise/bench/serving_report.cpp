#include "reprise/bench/serving_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::bench {
namespace {

struct Section {
  std::string_view key;
  std::string_view name;
  std::string_view title;
  Distribution ServingMetrics::* values;
};
constexpr std::array kSections = {
    Section{"ttft", "TTFT", "Time to First Token", &ServingMetrics::ttft},
    Section{"tpot", "TPOT", "Time per Output Token (excl. 1st token)", &ServingMetrics::tpot},
    Section{"itl", "ITL", "Inter-token Latency", &ServingMetrics::itl},
    Section{"e2el", "E2EL", "End-to-end Latency", &ServingMetrics::e2el}};
constexpr Section kQueueSection = {"client_queue_time",
                                   "Client Queue Time",
                                   "Client-side Queueing",
                                   &ServingMetrics::client_queue_time};
constexpr Section kWithQueueSection = {"e2el_including_client_queue",
                                       "E2EL incl. Client Queue",
                                       "Queue-inclusive End-to-end Latency",
                                       &ServingMetrics::e2el_including_client_queue};

// The selected sections. As in vLLM, those about the queue also need a limit: both need
// max_concurrency, and kWithQueueSection needs a finite request_rate as well.
std::vector<Section> sections_of(const ReportOptions& options) {
  std::vector<Section> found;
  const auto add = [&](const Section& section) {
    const auto& names = options.metrics;
    if (std::find(names.begin(), names.end(), section.key) != names.end()) found.push_back(section);
  };
  for (const Section& section : kSections) add(section);
  if (options.max_concurrency) add(kQueueSection);
  if (options.max_concurrency && !std::isinf(options.request_rate)) add(kWithQueueSection);
  return found;
}

std::string percent_word(double percent) {
  return percent == std::floor(percent) ? fmt::format("{:.0f}", percent)
                                        : fmt::format("{}", percent);
}

template <typename T>
std::string row(std::string_view name, T value) {
  if constexpr (std::is_integral_v<T>) {
    return fmt::format("{:<40} {:<10}\n", name, value);
  } else {
    return fmt::format("{:<40} {:<10.2f}\n", name, value);
  }
}

}  // namespace

void check_metric_names(const std::vector<std::string>& names) {
  std::vector<std::string_view> known = {kQueueSection.key, kWithQueueSection.key};
  for (const Section& section : kSections) known.push_back(section.key);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InvalidArgument(
        fmt::format("--percentile-metrics: '{}' is not one of ttft, tpot, itl, e2el{}",
                    name,
                    did_you_mean(name, known)));
  }
}

std::string console_block(const ServingMetrics& metrics, const ReportOptions& options) {
  std::string text = fmt::format("{:=^50}\n", " Serving Benchmark Result ");
  text += row("Successful requests:", metrics.completed);
  text += row("Failed requests:", metrics.failed);
  if (options.max_concurrency)
    text += row("Maximum request concurrency:", *options.max_concurrency);
  if (!std::isinf(options.request_rate)) {
    text += row("Request rate configured (RPS):", options.request_rate);
  }
  text += row("Benchmark duration (s):", metrics.duration);
  text += row("Total input tokens:", metrics.total_input);
  text += row("Total generated tokens:", metrics.total_output);
  text += row("Request throughput (req/s):", metrics.request_throughput);
  if (options.shows_goodput) text += row("Request goodput (req/s):", metrics.request_goodput);
  text += row("Output token throughput (tok/s):", metrics.output_throughput);
  text += row("Peak output token throughput (tok/s):", metrics.max_output_tokens_per_s);
  text += row("Peak concurrent requests:", static_cast<double>(metrics.max_concurrent_requests));
  text += row("Total token throughput (tok/s):", metrics.total_token_throughput);
  for (const Section& section : sections_of(options)) {
    const Distribution& values = metrics.*section.values;
    text += fmt::format("{:-^50}\n", section.title);
    text += row(fmt::format("Mean {} (ms):", section.name), values.mean);
    text += row(fmt::format("Median {} (ms):", section.name), values.median);
    for (size_t i = 0; i < metrics.percents.size(); ++i) {
      text += row(fmt::format("P{} {} (ms):", percent_word(metrics.percents[i]), section.name),
                  values.percentiles[i]);
    }
  }
  return text + std::string(50, '=') + "\n";
}

Json to_json(const ServingMetrics& metrics,
             const ReportOptions& options,
             const LoadResult& result,
             bool detailed) {
  Json json = {
      {"duration", metrics.duration},
      {"completed", metrics.completed},
      {"failed", metrics.failed},
      {"total_input_tokens", metrics.total_input},
      {"total_output_tokens", metrics.total_output},
      {"request_throughput", metrics.request_throughput},
      {"request_goodput", options.shows_goodput ? Json(metrics.request_goodput) : Json(nullptr)},
      {"output_throughput", metrics.output_throughput},
      {"total_token_throughput", metrics.total_token_throughput}};
  if (detailed) {
    for (const char* name : {"input_lens",
                             "output_lens",
                             "ttfts",
                             "itls",
                             "latencies",
                             "start_times",
                             "queue_times",
                             "generated_texts",
                             "errors"}) {
      json[name] = Json::array();
    }
    for (const RequestOutcome& outcome : result.outcomes) {
      json["input_lens"].push_back(outcome.prompt_len);
      json["ttfts"].push_back(outcome.ttft);
      json["itls"].push_back(outcome.itl);
      json["latencies"].push_back(outcome.latency);
      json["start_times"].push_back(outcome.start_time);
      json["queue_times"].push_back(outcome.queue_time);
      json["generated_texts"].push_back(outcome.generated_text);
      json["errors"].push_back(outcome.error);
    }
    json["output_lens"] = metrics.output_lens;
  }
  json["max_output_tokens_per_s"] = metrics.max_output_tokens_per_s;
  json["max_concurrent_requests"] = metrics.max_concurrent_requests;
  json["rtfx"] = 0.0;  // a metric of speech benchmarks; scripts expect the member
  for (const Section& section : sections_of(options)) {
    const Distribution& values = metrics.*section.values;
    json[fmt::format("mean_{}_ms", section.key)] = values.mean;
    json[fmt::format("median_{}_ms", section.key)] = values.median;
    json[fmt::format("std_{}_ms", section.key)] = values.std;
    for (size_t i = 0; i < metrics.percents.size(); ++i) {
      json[fmt::format("p{}_{}_ms", percent_word(metrics.percents[i]), section.key)] =
          values.percentiles[i];
    }
  }
  return json;
}

std::string python_float(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace reprise::bench
