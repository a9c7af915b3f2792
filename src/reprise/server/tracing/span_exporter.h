#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "reprise/base/log.h"
#include "reprise/server/tracing/otlp_json.h"
#include "reprise/server/tracing/span.h"

namespace reprise::server {

/// Sends one body to the collector and returns when the collector has accepted it. The function
/// runs on the exporter's thread and must end within its own time limit. \throws Error if the
/// collector did not accept the body
using SendSpans = std::function<void(const std::string& body)>;

struct SpanExporterOptions {
  TraceResource resource;
  // The number of spans that may wait, the number that are sent together, and how long a span waits
  // for others. The values are the defaults of OpenTelemetry's batch processor, with a shorter
  // delay.
  size_t max_waiting = 2048;
  size_t max_batch = 512;
  std::chrono::milliseconds delay{1000};
};

struct SpanCounts {
  uint64_t num_exported = 0;  // the collector has them
  // Spans for which the queue was full, or that the collector did not accept.
  uint64_t num_dropped = 0;
};

/// Sends spans from its own thread, so that no request waits for a collector that is slow or
/// unreachable: spans beyond the limit of the queue are dropped and counted. Spans that the
/// collector does not accept are dropped too. The log reports this at most once a minute.
/// Thread-safe.
class SpanExporter {
 public:
  SpanExporter(SpanExporterOptions options, SendSpans send, Log log);
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;
  /// Gives the waiting spans up to two seconds to be sent. A thread that still waits for the
  /// collector after that keeps running, but sends no more.
  ~SpanExporter();

  /// Never waits.
  void add(Span span);
  [[nodiscard]] SpanCounts counts() const;

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace reprise::server
