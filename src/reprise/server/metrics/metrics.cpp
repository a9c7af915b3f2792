#include "reprise/server/metrics/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "reprise/server/openai/generation_service.h"

namespace reprise::server {
namespace {

std::string escape_label(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

/// Writes a bound the way the Python client does ("1.0", "0.25", "1e+06"), because recording rules
/// contain these texts.
std::string bound_text(double bound) {
  if (bound >= 1e6) return fmt::format("{:g}", bound);
  if (bound == std::floor(bound)) return fmt::format("{:.1f}", bound);
  return fmt::format("{}", bound);
}

}  // namespace

std::string_view to_string(MetricType type) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "counter", "gauge", "histogram", "summary"};
  return kNames[static_cast<size_t>(type)];
}

std::span<const MetricGroup> metric_table() {
  static const std::array<MetricGroup, 4> kGroups = {
      vllm_metrics(), own_metrics(), http_metrics(), process_metrics()};
  return kGroups;
}

void FamilyWriter::line(std::string_view suffix,
                        double value,
                        Labels labels,
                        std::string_view bucket) {
  const auto out = std::back_inserter(*text_);
  fmt::format_to(out, "{}{}", name_, suffix);
  bool is_first = true;
  const auto add = [&](std::string_view label_text) {
    fmt::format_to(out, "{}{}", is_first ? '{' : ',', label_text);
    is_first = false;
  };
  if (!common_.empty()) add(common_);
  for (const Label& label : labels) {
    add(fmt::format("{}=\"{}\"", label.name, escape_label(label.value)));
  }
  if (!bucket.empty()) add(fmt::format("le=\"{}\"", bucket));
  fmt::format_to(out, "{} {}\n", is_first ? "" : "}", value);
}

void FamilyWriter::histogram(const Histogram& histogram, Labels labels) {
  uint64_t cumulated = 0;
  for (size_t i = 0; i < histogram.bounds().size(); ++i) {
    cumulated += histogram.counts()[i];
    line("_bucket", static_cast<double>(cumulated), labels, bound_text(histogram.bounds()[i]));
  }
  line("_bucket", static_cast<double>(histogram.count()), labels, "+Inf");
  summary(histogram.count(), histogram.sum(), labels);
}

void FamilyWriter::summary(uint64_t count, double sum, Labels labels) {
  line("_sum", sum, labels, {});
  line("_count", static_cast<double>(count), labels, {});
}

std::string metrics_text(const MetricsSource& source) {
  const std::string model_name = escape_label(source.model_name);
  const GenerationCounts none(source.startup.max_model_len);
  std::string text;
  for (const MetricGroup& group : metric_table()) {
    const bool is_of_engine = group.scope == MetricGroup::Scope::engine;
    for (const MetricFamily& family : group.families) {
      fmt::format_to(std::back_inserter(text),
                     "# HELP {0} {1}\n# TYPE {0} {2}\n",
                     family.name,
                     family.help,
                     to_string(family.type));
      const auto write =
          [&](std::string_view labels, const api::EngineStats& engine, bool is_first) {
            FamilyWriter writer(text, family.name, labels);
            family.write(writer,
                         {.engine = engine,
                          .startup = source.startup,
                          // The frontend counts answers for all engines, so only the first one
                          // reports them.
                          .generations = is_first ? source.generations : none,
                          .http = source.http,
                          .process = source.process,
                          .dropped_log_lines = source.dropped_log_lines,
                          .spans = is_first ? source.spans : std::nullopt,
                          .model_name = source.model_name});
          };
      const size_t num_engines = is_of_engine ? std::max<size_t>(1, source.engines.size()) : 1;
      for (size_t i = 0; i < num_engines; ++i) {
        write(is_of_engine ? fmt::format("engine=\"{}\",model_name=\"{}\"", i, model_name) : "",
              source.engines.empty() || !is_of_engine ? source.engine : source.engines[i],
              i == 0);
      }
    }
  }
  return text;
}

}  // namespace reprise::server
