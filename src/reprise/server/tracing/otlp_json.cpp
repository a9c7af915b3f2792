#include "reprise/server/tracing/otlp_json.h"

#include <string>
#include <type_traits>
#include <variant>

#include "reprise/base/json.h"

namespace reprise::server {
namespace {

constexpr int kServerKind = 2;   // SPAN_KIND_SERVER
constexpr int kErrorStatus = 2;  // STATUS_CODE_ERROR

// Span.flags: the flags of W3C Trace Context, and whether the parent's process is known.
constexpr uint32_t kSampled = 0x1;
constexpr uint32_t kHasRemoteFlag = 0x100;
constexpr uint32_t kParentIsRemote = 0x200;

Json any_value(const Span::Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return {{"stringValue", held}};
        } else if constexpr (std::is_same_v<T, int64_t>) {
          return {{"intValue", std::to_string(held)}};
        } else if constexpr (std::is_same_v<T, double>) {
          return {{"doubleValue", held}};
        } else {
          Json values = Json::array();
          for (const std::string& text : held) values.push_back({{"stringValue", text}});
          return {{"arrayValue", {{"values", values}}}};
        }
      },
      value);
}

Json key_value(std::string_view key, const Span::Value& value) {
  return {{"key", key}, {"value", any_value(value)}};
}

Json to_json(const Span& span) {
  Json json = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.trace_state.empty()) json["traceState"] = span.trace_state;
  uint32_t flags = kSampled | kHasRemoteFlag;
  if (!span.parent_span_id.empty()) {
    json["parentSpanId"] = span.parent_span_id;
    flags |= kParentIsRemote;
  }
  json["flags"] = flags;
  json["name"] = span.name;
  json["kind"] = kServerKind;
  json["startTimeUnixNano"] = std::to_string(span.start_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  json["attributes"] = Json::array();
  for (const auto& [key, value] : span.attributes) {
    json["attributes"].push_back(key_value(key, value));
  }
  json["status"] = Json::object();
  if (!span.error.empty()) json["status"] = {{"message", span.error}, {"code", kErrorStatus}};
  return json;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, const TraceResource& resource) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(to_json(span));
  const Json scope = {{"name", "reprise"}, {"version", resource.version}};
  const Json of_scope = {{"scope", scope}, {"spans", std::move(list)}};
  const Json attributes = Json::array({key_value("service.name", resource.service_name),
                                       key_value("service.version", resource.version),
                                       key_value("telemetry.sdk.name", std::string("reprise")),
                                       key_value("telemetry.sdk.language", std::string("cpp"))});
  const Json of_resource = {{"resource", {{"attributes", attributes}}},
                            {"scopeSpans", Json::array({of_scope})}};
  const Json request = {{"resourceSpans", Json::array({of_resource})}};
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise::server
