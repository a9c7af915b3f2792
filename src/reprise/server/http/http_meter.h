#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "reprise/base/histogram.h"
#include "reprise/server/http/router.h"

namespace reprise::server {

/// Counts answers by route, method and class of status, like the instrumentation of vLLM's server.
/// Each of the three has a fixed set of values, whatever clients send. I/O thread only.
class HttpMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// An answer that is complete, or whose client has disconnected.
  struct Answered {
    std::string_view handler;  // the route's path; "none" for a path that is not a route
    std::string_view method;   // as sent; counted as "other" when HTTP does not define it
    int status = 200;
    double seconds = 0;
    size_t request_bytes = 0;
    size_t response_bytes = 0;
  };
  void observe(const Answered& answered);
  /// Health checks and metrics requests are not counted: they would hide the other requests.
  [[nodiscard]] static bool is_counted(std::string_view handler);

  struct Size {
    uint64_t count = 0;
    double bytes = 0;
  };
  using HandlerMethodStatus = std::tuple<std::string, std::string, std::string>;  // "2xx"
  using HandlerMethod = std::pair<std::string, std::string>;
  [[nodiscard]] const auto& requests() const noexcept { return requests_; }
  [[nodiscard]] const auto& durations() const noexcept { return durations_; }
  [[nodiscard]] const Histogram& all_durations() const noexcept { return all_durations_; }
  [[nodiscard]] const auto& request_sizes() const noexcept { return request_sizes_; }
  [[nodiscard]] const auto& response_sizes() const noexcept { return response_sizes_; }

  HttpMeter();

 private:
  std::map<HandlerMethodStatus, uint64_t> requests_;
  std::map<HandlerMethod, Histogram> durations_;
  Histogram all_durations_;
  std::map<std::string, Size> request_sizes_;  // by handler
  std::map<std::string, Size> response_sizes_;
};

/// Wraps `exchange` so that `meter` sees its answer. Returns `exchange` itself when the route is
/// not counted. `meter` must outlive the result.
[[nodiscard]] ExchangeRef metered(HttpMeter& meter,
                                  std::string_view handler,
                                  const HttpRequest& request,
                                  const ExchangeRef& exchange);

}  // namespace reprise::server
