#include "reprise/server/http/http_meter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/server/http/forwarding_exchange.h"

namespace reprise::server {
namespace {

// The bounds of the Python instrumentation, so that existing dashboards work.
constexpr auto kFineBounds = std::to_array<double>(
    {.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60});
constexpr auto kCoarseBounds = std::to_array<double>({.1, .5, 1});

/// The method as a label. The labels are a closed set: a client that makes up methods must not make
/// the metrics grow.
std::string_view method_label(std::string_view method) {
  static constexpr auto kMethods =
      std::to_array<std::string_view>({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"});
  const auto* const found = std::find(kMethods.begin(), kMethods.end(), method);
  return found == kMethods.end() ? "other" : *found;
}

/// "2xx"; "other" for a status that HTTP does not have.
std::string status_label(int status) {
  return status >= 100 && status < 600 ? std::to_string(status / 100) + "xx" : "other";
}

/// Reports the answer to the meter once, when it ends.
class MeteredExchange : public ForwardingExchange {
 public:
  MeteredExchange(HttpMeter& meter,
                  std::string_view handler,
                  const HttpRequest& request,
                  ExchangeRef exchange)
      : ForwardingExchange(std::move(exchange)),
        meter_(&meter),
        handler_(handler),
        method_(request.method),
        request_bytes_(request.body.size()) {}
  ~MeteredExchange() override { note_end(); }

  void respond(HttpResponse response) override {
    status_ = response.status;
    response_bytes_ = response.body.size();
    note_end();
    ForwardingExchange::respond(std::move(response));
  }
  void begin_stream(const HttpResponse& head) override {
    status_ = head.status;
    ForwardingExchange::begin_stream(head);
  }
  void write(std::string_view bytes) override {
    response_bytes_ += bytes.size();
    ForwardingExchange::write(bytes);
  }
  void finish_stream() override {
    note_end();
    ForwardingExchange::finish_stream();
  }

 private:
  void note_end() {
    if (std::exchange(has_ended_, true)) return;
    const double seconds = std::chrono::duration<double>(HttpMeter::Clock::now() - began_).count();
    meter_->observe({.handler = handler_,
                     .method = method_,
                     .status = status_,
                     .seconds = seconds,
                     .request_bytes = request_bytes_,
                     .response_bytes = response_bytes_});
  }

  HttpMeter* meter_;  // owned by the server, which outlives its exchanges
  std::string handler_;
  std::string method_;
  size_t request_bytes_;
  HttpMeter::Clock::time_point began_ = HttpMeter::Clock::now();
  int status_ = kClientClosed;
  size_t response_bytes_ = 0;
  bool has_ended_ = false;
};

}  // namespace

HttpMeter::HttpMeter() : all_durations_(kFineBounds) {}

bool HttpMeter::is_counted(std::string_view handler) {
  static constexpr auto kProbes = std::to_array<std::string_view>(
      {"/metrics", "/health", "/load", "/ping", "/version", "/server_info", "/live"});
  return std::find(kProbes.begin(), kProbes.end(), handler) == kProbes.end();
}

void HttpMeter::observe(const Answered& answered) {
  if (!is_counted(answered.handler)) return;
  const std::string handler(answered.handler);
  const std::string method(method_label(answered.method));
  ++requests_[{handler, method, status_label(answered.status)}];
  durations_.try_emplace({handler, method}, kCoarseBounds).first->second.observe(answered.seconds);
  all_durations_.observe(answered.seconds);
  Size& request = request_sizes_[handler];
  ++request.count;
  request.bytes += static_cast<double>(answered.request_bytes);
  Size& response = response_sizes_[handler];
  ++response.count;
  response.bytes += static_cast<double>(answered.response_bytes);
}

ExchangeRef metered(HttpMeter& meter,
                    std::string_view handler,
                    const HttpRequest& request,
                    const ExchangeRef& exchange) {
  if (!HttpMeter::is_counted(handler)) return exchange;
  return std::make_shared<MeteredExchange>(meter, handler, request, exchange);
}

}  // namespace reprise::server
