#include "reprise/server/http/unused_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "reprise/server/http/forwarding_exchange.h"
#include "reprise/server/http/request_query.h"

namespace reprise::server {
namespace {

// Clients may make up names, so the number of logged names is limited.
constexpr size_t kMaxLoggedNames = 128;
constexpr size_t kMaxParameters = 16;

/// Adds a header to the answer.
class ExchangeWithHeader : public ForwardingExchange {
 public:
  ExchangeWithHeader(std::string name, std::string value, ExchangeRef exchange)
      : ForwardingExchange(std::move(exchange)), header_(std::move(name), std::move(value)) {}

  void respond(HttpResponse response) override {
    response.headers.push_back(header_);
    ForwardingExchange::respond(std::move(response));
  }
  void begin_stream(const HttpResponse& head) override {
    HttpResponse with_header = head;
    with_header.headers.push_back(header_);
    ForwardingExchange::begin_stream(with_header);
  }

 private:
  HttpHeaders::value_type header_;
};

}  // namespace

ExchangeRef UnusedFields::tell(const std::vector<std::string>& names, const ExchangeRef& exchange) {
  if (names.empty()) return exchange;
  std::vector<std::string> fresh;
  for (const std::string& name : names) {
    if (logged_.size() < kMaxLoggedNames && logged_.insert(name).second) fresh.push_back(name);
  }
  if (!fresh.empty()) {
    log_.warning(
        fmt::format("requests have fields without effect on this server: {} (said once "
                    "for each; the header {} of an answer names them)",
                    fmt::join(fresh, ", "),
                    kUnusedFieldsHeader));
  }
  return std::make_shared<ExchangeWithHeader>(
      kUnusedFieldsHeader, fmt::format("{}", fmt::join(names, ", ")), exchange);
}

std::vector<std::string> unused_parameters(const Route& route, const HttpRequest& request) {
  std::vector<std::string_view> known;
  for (const QueryParameter& parameter : route.query) known.push_back(parameter.name);
  std::vector<std::string> names = unknown_names(request.query, known, kMaxParameters);
  for (std::string& name : names) name.insert(0, "?");
  return names;
}

}  // namespace reprise::server
