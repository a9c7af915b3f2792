#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/api/engine_stats.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/server/http/http_meter.h"
#include "reprise/server/tracing/span_exporter.h"

namespace reprise::server {

struct GenerationCounts;

/// Facts about this process from the operating system; 0 for a fact that it does not provide.
struct ProcessFacts {
  double virtual_memory_bytes = 0;
  double resident_memory_bytes = 0;
  double start_time_seconds = 0;  // since 1970
  double cpu_seconds = 0;
  double open_fds = 0;
  double max_fds = 0;
};
[[nodiscard]] ProcessFacts read_process_facts();

/// The sources of all metrics at one moment. All members are borrowed.
struct MetricsSource {
  const api::EngineStats& engine;
  const api::StartupReport& startup;
  const GenerationCounts& generations;
  const HttpMeter& http;
  ProcessFacts process;
  uint64_t dropped_log_lines = 0;
  std::optional<SpanCounts> spans = {};  // unset: no traces are exported
  std::string_view model_name;
  /// The state of each engine (data parallel). Empty: there is only `engine`.
  std::span<const api::EngineStats> engines = {};
};

enum class MetricType : uint8_t { counter, gauge, histogram, summary };
[[nodiscard]] std::string_view to_string(MetricType type);

struct Label {
  std::string_view name;
  std::string_view value;
};

/// Writes the samples of one family in Prometheus' text format.
class FamilyWriter {
 public:
  using Labels = std::initializer_list<Label>;

  /// `common`: labels of every sample, already as text: `engine="0",model_name="m"`.
  FamilyWriter(std::string& text, std::string_view name, std::string_view common)
      : text_(&text), name_(name), common_(common) {}

  void sample(double value, Labels labels = {}) { line("", value, labels, {}); }
  void count(uint64_t value, Labels labels = {}) { sample(static_cast<double>(value), labels); }
  void histogram(const Histogram& histogram, Labels labels = {});
  void summary(uint64_t count, double sum, Labels labels = {});

 private:
  void line(std::string_view suffix, double value, Labels labels, std::string_view bucket);

  std::string* text_;
  std::string_view name_;
  std::string_view common_;
};

/// One line of the table from which /metrics and docs/reference/metrics.md are made.
struct MetricFamily {
  std::string_view name;
  MetricType type;
  std::string_view labels;  // beyond engine and model_name: "mode, reason"; empty: none
  std::string_view help;
  void (*write)(FamilyWriter& out, const MetricsSource& from);
};

// Short names for the entries of the tables.
using Out = FamilyWriter&;
using From = const MetricsSource&;
inline constexpr MetricType kCounter = MetricType::counter;
inline constexpr MetricType kGauge = MetricType::gauge;
inline constexpr MetricType kHistogram = MetricType::histogram;

/// A part of the table whose lines share some properties.
struct MetricGroup {
  std::string_view title;
  // engine: its samples carry the labels engine and model_name
  enum class Scope : uint8_t { engine, process } scope;
  std::span<const MetricFamily> families;
};
[[nodiscard]] MetricGroup vllm_metrics();
[[nodiscard]] MetricGroup own_metrics();
[[nodiscard]] MetricGroup http_metrics();
[[nodiscard]] MetricGroup process_metrics();
/// All groups, in the order of the page.
[[nodiscard]] std::span<const MetricGroup> metric_table();

}  // namespace reprise::server
