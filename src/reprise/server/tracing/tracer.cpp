#include "reprise/server/tracing/tracer.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace reprise::server {
namespace {

double span_seconds(api::TimePoint begin, api::TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// Returns 0.9 for 0.9F; a plain conversion would give 0.899999976.
double as_written(float number) { return std::stod(fmt::format("{}", number)); }

void add_latencies(const engine::RequestTimes& times, Span& span) {
  // In vLLM, the time to the first token begins when the request arrives, and the time in the queue
  // when the engine gets it.
  span.attributes.emplace_back("gen_ai.latency.time_to_first_token",
                               span_seconds(times.arrived, times.first_token));
  span.attributes.emplace_back("gen_ai.latency.time_in_queue",
                               span_seconds(times.queued, times.scheduled));
  span.attributes.emplace_back("gen_ai.latency.time_in_model_prefill",
                               span_seconds(times.scheduled, times.first_token));
  span.attributes.emplace_back("gen_ai.latency.time_in_model_decode",
                               span_seconds(times.first_token, times.last_token));
  span.attributes.emplace_back("gen_ai.latency.time_in_model_inference",
                               span_seconds(times.scheduled, times.last_token));
}

}  // namespace

std::string Tracer::random_id(size_t num_digits) {
  std::string id;
  while (id.size() < num_digits) id += fmt::format("{:016x}", random_());
  // An id of zeros is invalid in the standard.
  if (id.find_first_not_of('0') == std::string::npos) id.back() = '1';
  return id;
}

void Tracer::end_request(const TracedRequest& request,
                         std::string_view request_id,
                         const engine::OutputDelta& last) {
  if (request.parent && !request.parent->is_sampled) return;
  using std::chrono::nanoseconds;
  const nanoseconds age = std::chrono::steady_clock::now() - request.arrived;
  const nanoseconds end = std::chrono::system_clock::now().time_since_epoch();
  Span span{.trace_id = request.parent ? request.parent->trace_id : random_id(kTraceIdDigits),
            .span_id = random_id(kSpanIdDigits),
            .name = "llm_request",
            .start_ns = (end - age).count(),
            .end_ns = end.count(),
            .error = last.error};
  if (request.parent) {
    span.parent_span_id = request.parent->span_id;
    span.trace_state = request.parent->trace_state;
  }
  auto& attributes = span.attributes;
  attributes.emplace_back("gen_ai.request.id", std::string(request_id));
  attributes.emplace_back("gen_ai.response.model", request.model);
  attributes.emplace_back("gen_ai.request.temperature", as_written(request.temperature));
  attributes.emplace_back("gen_ai.request.top_p", as_written(request.top_p));
  if (request.max_tokens) attributes.emplace_back("gen_ai.request.max_tokens", *request.max_tokens);
  attributes.emplace_back("gen_ai.request.n", int64_t{request.n});
  attributes.emplace_back("gen_ai.usage.prompt_tokens", int64_t{last.num_prompt_tokens});
  attributes.emplace_back("gen_ai.usage.completion_tokens", int64_t{last.num_output_tokens});
  attributes.emplace_back("gen_ai.response.finish_reasons",
                          std::vector<std::string>{last.finish_reason});
  attributes.emplace_back("gen_ai.latency.e2e", std::chrono::duration<double>(age).count());
  if (last.times) add_latencies(*last.times, span);
  exporter_.add(std::move(span));
}

}  // namespace reprise::server
