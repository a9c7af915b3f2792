#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/trace_parent.h"
#include "reprise/server/tracing/span_exporter.h"

namespace reprise::server {

/// The facts of a request that its span contains; the span also contains figures of the answer.
struct TracedRequest {
  std::optional<TraceParent> parent;
  std::string model;
  float temperature = 1;
  float top_p = 1;
  std::optional<int64_t> max_tokens;
  int n = 1;
  api::TimePoint arrived;
};

/// Makes a span `llm_request` of each request of the engine that ends, as vLLM does: a request with
/// n = 2 has two. A request whose client does not sample its trace has none. Names and units of the
/// attributes are vLLM's. I/O thread only, except counts().
// Source: vLLM, vllm/tracing (SpanAttributes) and OutputProcessor.do_tracing; differs in
// gen_ai.response.model and gen_ai.response.finish_reasons, which are OpenTelemetry's, and in the
// status of a request that failed
class Tracer {
 public:
  Tracer(SpanExporterOptions options, SendSpans send, Log log)
      : exporter_(std::move(options), std::move(send), std::move(log)) {}

  /// `last`: the delta whose `finished` is true.
  void end_request(const TracedRequest& request,
                   std::string_view request_id,
                   const engine::OutputDelta& last);
  [[nodiscard]] SpanCounts counts() const { return exporter_.counts(); }

 private:
  [[nodiscard]] std::string random_id(size_t num_digits);

  std::mt19937_64 random_{std::random_device{}()};
  SpanExporter exporter_;
};

}  // namespace reprise::server
