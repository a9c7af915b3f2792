#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "reprise/server/http/router.h"

namespace reprise::server {

/// Forwards every call to another exchange. Derived classes override some calls.
class ForwardingExchange : public HttpExchange {
 public:
  explicit ForwardingExchange(ExchangeRef exchange) : exchange_(std::move(exchange)) {}

  void respond(HttpResponse response) override { exchange_->respond(std::move(response)); }
  void begin_stream(const HttpResponse& head) override { exchange_->begin_stream(head); }
  void write(std::string_view bytes) override { exchange_->write(bytes); }
  void finish_stream() override { exchange_->finish_stream(); }
  [[nodiscard]] bool client_is_gone() const override { return exchange_->client_is_gone(); }
  void on_disconnect(std::function<void()> callback) override {
    exchange_->on_disconnect(std::move(callback));
  }
  void note(AnswerFacts facts) override { exchange_->note(std::move(facts)); }

 private:
  ExchangeRef exchange_;
};

}  // namespace reprise::server
