#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::server {

/// A span of OpenTelemetry that has ended.
struct Span {
  using Value = std::variant<std::string, int64_t, double, std::vector<std::string>>;

  std::string trace_id;        // 32 lower-case hexadecimal digits
  std::string span_id;         // 16
  std::string parent_span_id;  // 16; empty: the span begins its trace
  std::string trace_state;
  std::string_view name;  // a literal
  int64_t start_ns = 0;   // since 1970
  int64_t end_ns = 0;
  std::vector<std::pair<std::string_view, Value>> attributes;  // the names are literals
  std::string error;                                           // not empty: what failed
};

}  // namespace reprise::server
