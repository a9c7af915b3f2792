#include "reprise/server/dialects/ollama_embed.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/http/forwarding_exchange.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

using Clock = std::chrono::steady_clock;

/// Turns the answer of /v1/embeddings into ollama's form for the client.
class VectorsExchange final : public ForwardingExchange {
 public:
  VectorsExchange(OllamaVectors form, Clock::time_point arrived, ExchangeRef exchange)
      : ForwardingExchange(std::move(exchange)), form_(form), arrived_(arrived) {}

  void respond(HttpResponse response) override {
    if (response.status < 400) response.body = dump(translated(Json::parse(response.body)));
    ForwardingExchange::respond(std::move(response));
  }

 private:
  [[nodiscard]] Json translated(Json answer) const {
    Json vectors = Json::array();
    for (Json& item : answer["data"]) vectors.push_back(std::move(item["embedding"]));
    if (form_ == OllamaVectors::embeddings) return {{"embedding", std::move(vectors[0])}};
    const auto taken =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - arrived_);
    return {{"model", answer["model"]},
            {"embeddings", std::move(vectors)},
            {"total_duration", taken.count()},
            {"load_duration", 0},  // the model was loaded before the first request
            {"prompt_eval_count", answer["usage"]["prompt_tokens"]}};
  }

  OllamaVectors form_;
  Clock::time_point arrived_;
};

}  // namespace

Answering prepare_ollama_vectors(const TextPooling& pooling,
                                 OllamaVectors form,
                                 const HttpRequest& request) {
  const auto arrived = Clock::now();
  const Json json = parse_body(request.body);
  const RequestFields fields(json);
  const std::string body = dump(read_ollama_vectors(fields, form));
  Answering answering = pooling.prepare(body, PoolingApi::embeddings, request);
  answering.unused_fields = fields.unused();
  answering.answer =
      [start = std::move(answering.answer), form, arrived](const ExchangeRef& exchange) {
        start(std::make_shared<VectorsExchange>(form, arrived, exchange));
      };
  return answering;
}

}  // namespace reprise::server
