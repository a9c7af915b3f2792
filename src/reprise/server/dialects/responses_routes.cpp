#include "reprise/server/dialects/responses_routes.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "reprise/server/dialects/response_store.h"
#include "reprise/server/dialects/responses_request.h"
#include "reprise/server/dialects/translated_chat.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

[[noreturn]] void refuse_unknown(const std::string& id) {
  // The rest of a path may have slashes: /v1/responses/ID/input_items is a route of OpenAI's own.
  if (id.find('/') != std::string::npos) throw ApiError(404, "Not Found");
  throw ApiError(404,
                 fmt::format("Response with id '{}' not found. This server keeps responses in "
                             "memory only, and forgets the oldest ones.",
                             id.substr(0, 64)));
}

}  // namespace

void add_responses_routes(Router& router, const std::shared_ptr<const TextGeneration>& generation) {
  const auto store = std::make_shared<ResponseStore>();
  router.add({.method = "POST",
              .path = "/v1/responses",
              .body_schema = "ResponsesRequest",
              .answer_types = {"application/json", "text/event-stream"},
              .summary = "Answers a conversation of OpenAI's Responses API.",
              .handle = [generation](const HttpRequest&,
                                     const ExchangeRef&) { generation->admit("Responses"); },
              .prepare =
                  [generation, store](const HttpRequest& request) {
                    const auto arrived = std::chrono::steady_clock::now();
                    return prepare_translated(
                        *generation,
                        read_responses_request(parse_body(request.body), store),
                        request,
                        arrived);
                  }});
  Route one{.method = "GET",
            .path = "/v1/responses/{response_id}",
            .summary = "A response that the server still has."};
  one.handle = [store, route = one](const HttpRequest& request, const ExchangeRef& exchange) {
    const std::string id = route.parameter_in(request.path);
    std::optional<std::string> found = store->response(id);
    if (!found) refuse_unknown(id);
    exchange->respond({.body = std::move(*found)});
  };
  router.add(one);
  one.method = "DELETE";
  one.summary = "Forgets a response.";
  one.handle = [store, route = one](const HttpRequest& request, const ExchangeRef& exchange) {
    const std::string id = route.parameter_in(request.path);
    if (!store->erase(id)) refuse_unknown(id);
    exchange->respond({.body = dump({{"id", id}, {"object", "response"}, {"deleted", true}})});
  };
  router.add(std::move(one));
}

}  // namespace reprise::server
