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

/// Sends one body to the collector and returns when the collector has taken it. It runs on the
/// exporter's thread and must end within a time limit of its own. \throws Error when the body was
/// not taken
using SendSpans = std::function<void(const std::string& body)>;

struct SpanExporterOptions {
  TraceResource resource;
  // Spans that may wait, spans that are sent together, and how long a span waits for others: the
  // defaults of OpenTelemetry's batch processor, with a shorter delay.
  size_t max_waiting = 2048;
  size_t max_batch = 512;
  std::chrono::milliseconds delay{1000};
};

struct SpanCounts {
  uint64_t num_exported = 0;  // the collector has them
  uint64_t num_dropped = 0;   // the queue was full, or the collector did not take them
};

/// Sends spans from its own thread, so that a collector which is slow, or gone, keeps no request
/// waiting: spans beyond the limit of the queue are dropped and counted. Spans that the collector
/// does not take are dropped too. The log tells of it, at most once a minute. Thread-safe.
class SpanExporter {
 public:
  SpanExporter(SpanExporterOptions options, SendSpans send, Log log);
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;
  /// Gives the waiting spans up to two seconds to be sent. A thread that still waits for the
  /// collector then keeps running and sends no more.
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
