#include "reprise/server/openai/pooling_routes.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/openai/pooling_request.h"

namespace reprise::server {
namespace {

struct PoolingRoute {
  const char* path;
  PoolingApi api;
  const char* body_schema;
  const char* summary;
  const char* name;  // in the refusal
};

constexpr std::array kRoutes = {
    PoolingRoute{"/v1/embeddings",
                 PoolingApi::embeddings,
                 "EmbeddingRequest",
                 "A vector of each text.",
                 "Embeddings"},
    PoolingRoute{"/pooling", PoolingApi::pooling, "EmbeddingRequest", "The same.", "Pooling"},
    PoolingRoute{"/score",
                 PoolingApi::score,
                 "ScoreRequest",
                 "How similar texts are: the cosine of their vectors.",
                 "Score"},
    PoolingRoute{"/v1/score", PoolingApi::score, "ScoreRequest", "The same.", "Score"},
    PoolingRoute{"/rerank",
                 PoolingApi::rerank,
                 "RerankRequest",
                 "Documents in the order of their similarity to a query.",
                 "Rerank"},
    PoolingRoute{"/v1/rerank", PoolingApi::rerank, "RerankRequest", "The same.", "Rerank"},
    PoolingRoute{"/v2/rerank", PoolingApi::rerank, "RerankRequest", "The same.", "Rerank"},
    PoolingRoute{"/classify",
                 PoolingApi::classify,
                 "ClassifyRequest",
                 "How probable each label of a classifier is.",
                 "Classification"},
};

// Whether a model with this classifier, or without one, answers the route. Source: vLLM 0.32. A
// score is one number.
bool is_served(PoolingApi api, const weights::ClassifierConfig* classifier) {
  if (api == PoolingApi::pooling) return true;
  if (api == PoolingApi::classify) return classifier != nullptr;
  if (classifier == nullptr) return true;
  return api != PoolingApi::embeddings && classifier->num_labels == 1;
}

}  // namespace

void add_pooling_routes(Router& router,
                        const api::AsyncEngine& engine,
                        GenerationService& generations,
                        const ServedModel& model,
                        const PromptEncoder& prompts) {
  const auto& pooling = engine.startup_report().pooling;
  const auto& matryoshka = engine.startup_report().matryoshka;
  const auto& classifier = engine.startup_report().classifier;
  const PooledModel pooled{.normalizes = classifier || (pooling && pooling->normalizes),
                           .classifier = classifier ? &*classifier : nullptr,
                           .matryoshka = matryoshka ? &*matryoshka : nullptr};
  for (const PoolingRoute& route : kRoutes) {
    const bool pools = pooling && is_served(route.api, pooled.classifier);
    router.add(
        {.method = "POST",
         .path = route.path,
         .body_schema = route.body_schema,
         .summary = route.summary,
         // A server that cannot serve the request refuses it before it works on the body.
         .handle =
             [&generations, pools, name = route.name](const HttpRequest&, const ExchangeRef&) {
               if (!pools) {
                 throw ApiError(400, fmt::format("The model does not support {} API", name));
               }
               generations.check_room(1);
             },
         .prepare = [&generations, &model, &prompts, kind = route.api, pooled](
                        const HttpRequest& from) -> Answering {
           const api::TimePoint arrived = std::chrono::steady_clock::now();
           GenerationRequest wanted = parse_pooling_request(from.body, kind, pooled);
           wanted.client = from.client;
           wanted.trace_parent = from.trace_parent;
           model.check(wanted.model);
           std::vector<EncodedPrompt> encoded = prompts.encode(wanted, from.work);
           std::vector<std::string> unused_fields = std::move(wanted.unused_fields);
           return {[&generations,
                    encoded = std::move(encoded),
                    wanted = std::move(wanted),
                    request_id = from.request_id,
                    arrived](const ExchangeRef& exchange) {
                     generations.start(wanted, encoded, request_id, exchange, arrived);
                   },
                   std::move(unused_fields)};
         },
         .is_described = pools});
  }
}

}  // namespace reprise::server
