#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::server {

// Hexadecimal digits of the ids in W3C Trace Context and OpenTelemetry.
inline constexpr size_t kTraceIdDigits = 32;
inline constexpr size_t kSpanIdDigits = 16;

/// The client's span to which a request belongs, from the headers `traceparent` and `tracestate` of
/// W3C Trace Context.
struct TraceParent {
  std::string trace_id;     // 32 lower-case hexadecimal digits
  std::string span_id;      // 16
  bool is_sampled = false;  // false: the client wants no span for this request
  std::string trace_state;  // data of the vendors in the header's list; may be empty

  friend bool operator==(const TraceParent&, const TraceParent&) = default;
};

/// nullopt if the header is absent or does not have the standard's form: then the request begins a
/// trace of its own. A `tracestate` without this form is dropped. Source:
/// https://www.w3.org/TR/trace-context-1/, sections 3.2 and 3.3
[[nodiscard]] std::optional<TraceParent> parse_trace_parent(std::string_view traceparent,
                                                            std::string_view tracestate);

}  // namespace reprise::server
