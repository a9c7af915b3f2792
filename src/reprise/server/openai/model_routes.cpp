#include "reprise/server/openai/model_routes.h"

namespace reprise::server {

void add_model_routes(Router& router, const ServedModel& model) {
  router.add({.method = "GET",
              .path = "/v1/models",
              .summary = "The served model under each of its names, and its adapters.",
              .handle = [&model](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump({{"object", "list"}, {"data", model.list()}})});
              }});
  Route one{.method = "GET",
            .path = "/v1/models/{model_id}",
            .summary = "The served model under one of its names, or an adapter."};
  one.handle = [&model, route = one](const HttpRequest& request, const ExchangeRef& exchange) {
    const std::string name = route.parameter_in(request.path);
    exchange->respond({.body = dump(model.to_json(name))});
  };
  router.add(std::move(one));
}

}  // namespace reprise::server
