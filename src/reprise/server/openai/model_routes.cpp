#include "reprise/server/openai/model_routes.h"

namespace reprise::server {

void add_model_routes(Router& router, const ServedModel& model) {
  router.add({.method = "GET",
              .path = "/v1/models",
              .summary = "The served model under each of its names.",
              .handle = [&model](const HttpRequest&, const ExchangeRef& exchange) {
                Json list = {{"object", "list"}, {"data", Json::array()}};
                for (const std::string& name : model.names()) {
                  list["data"].push_back(model.to_json(name));
                }
                exchange->respond({.body = dump(list)});
              }});
  Route one{.method = "GET",
            .path = "/v1/models/{model_id}",
            .summary = "The served model under one of its names."};
  one.handle = [&model, route = one](const HttpRequest& request, const ExchangeRef& exchange) {
    const std::string name = route.parameter_in(request.path);
    model.check(name);
    exchange->respond({.body = dump(model.to_json(name))});
  };
  router.add(std::move(one));
}

}  // namespace reprise::server
