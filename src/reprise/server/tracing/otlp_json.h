#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reprise/server/tracing/span.h"

namespace reprise::server {

/// Who sends the spans.
struct TraceResource {
  std::string service_name = "reprise";
  std::string version;
};

/// The body of a POST to the traces endpoint of OTLP/HTTP: an ExportTraceServiceRequest as JSON.
/// It differs from the usual JSON of protobuf in two ways: ids are hexadecimal, and enumerators are
/// numbers. As there, 64-bit integers are strings.
// Source: https://opentelemetry.io/docs/specs/otlp/, "JSON Protobuf Encoding"
[[nodiscard]] std::string otlp_json(std::span<const Span> spans, const TraceResource& resource);

}  // namespace reprise::server
