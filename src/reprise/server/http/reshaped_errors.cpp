#include "reprise/server/http/reshaped_errors.h"

#include <utility>

#include "reprise/server/http/forwarding_exchange.h"

namespace reprise::server {
namespace {

class ExchangeWithReshapedErrors : public ForwardingExchange {
 public:
  ExchangeWithReshapedErrors(HttpResponse (*reshape)(HttpResponse), ExchangeRef exchange)
      : ForwardingExchange(std::move(exchange)), reshape_(reshape) {}

  void respond(HttpResponse response) override {
    if (response.status >= 400) response = reshape_(std::move(response));
    ForwardingExchange::respond(std::move(response));
  }

 private:
  HttpResponse (*reshape_)(HttpResponse);
};

}  // namespace

ExchangeRef with_reshaped_errors(const Route& route, const ExchangeRef& exchange) {
  if (route.reshape_error == nullptr) return exchange;
  return std::make_shared<ExchangeWithReshapedErrors>(route.reshape_error, exchange);
}

}  // namespace reprise::server
