#include "reprise/server/openai/pooling_routes.h"

#include <array>

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

}  // namespace

void add_pooling_routes(Router& router, const std::shared_ptr<const TextPooling>& pooling) {
  for (const PoolingRoute& route : kRoutes) {
    router.add(
        {.method = "POST",
         .path = route.path,
         .body_schema = route.body_schema,
         .summary = route.summary,
         // If the server cannot serve the request, it refuses it before it reads the body.
         .handle = [pooling, kind = route.api, name = route.name](
                       const HttpRequest&, const ExchangeRef&) { pooling->admit(kind, name); },
         .prepare =
             [pooling, kind = route.api](const HttpRequest& from) {
               return pooling->prepare(from.body, kind, from);
             },
         .is_described = pooling->serves(route.api)});
  }
}

}  // namespace reprise::server
