#include "reprise/server/http/trace_parent.h"

#include <algorithm>
#include <cstddef>

namespace reprise::server {
namespace {

// "00-" trace id "-" span id "-" flags
constexpr size_t kTraceIdAt = 3;
constexpr size_t kSpanIdAt = kTraceIdAt + kTraceIdDigits + 1;
constexpr size_t kFlagsAt = kSpanIdAt + kSpanIdDigits + 1;
constexpr size_t kHeaderSize = kFlagsAt + 2;
constexpr size_t kMaxTraceStateBytes = 512;  // what every receiver has to pass on

bool is_lower_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c == '0'; });
}

bool is_sampled(char last_digit) {
  const int value = last_digit <= '9' ? last_digit - '0' : last_digit - 'a' + 10;
  return value % 2 == 1;  // the lowest bit
}

bool is_trace_state(std::string_view text) {
  return text.size() <= kMaxTraceStateBytes &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

std::optional<TraceParent> parse_trace_parent(std::string_view traceparent,
                                              std::string_view tracestate) {
  if (traceparent.size() < kHeaderSize) return std::nullopt;
  const std::string_view version = traceparent.substr(0, 2);
  const std::string_view trace_id = traceparent.substr(kTraceIdAt, kTraceIdDigits);
  const std::string_view span_id = traceparent.substr(kSpanIdAt, kSpanIdDigits);
  const std::string_view flags = traceparent.substr(kFlagsAt, 2);
  const std::string_view rest = traceparent.substr(kHeaderSize);
  const bool has_dashes = traceparent[kTraceIdAt - 1] == '-' && traceparent[kSpanIdAt - 1] == '-' &&
                          traceparent[kFlagsAt - 1] == '-';
  // A later version of the standard may add parts after another dash.
  const bool ends_well = rest.empty() || (version != "00" && rest[0] == '-');
  const bool is_hex = is_lower_hex(version) && is_lower_hex(trace_id) && is_lower_hex(span_id) &&
                      is_lower_hex(flags);
  if (!has_dashes || !ends_well || !is_hex || version == "ff") return std::nullopt;
  if (is_zero(trace_id) || is_zero(span_id)) return std::nullopt;
  return TraceParent{.trace_id = std::string(trace_id),
                     .span_id = std::string(span_id),
                     .is_sampled = is_sampled(flags[1]),
                     .trace_state = is_trace_state(tracestate) ? std::string(tracestate) : ""};
}

}  // namespace reprise::server
