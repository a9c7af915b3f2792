#include "reprise/server/page_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "reprise/server/page_files.h"

namespace reprise::server {
namespace {

// The pages load nothing from other servers and run no inline code; other pages may not embed them
// in a frame.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpResponse file_response(std::string_view text, std::string_view media_type) {
  return {.body = std::string(text),
          .content_type = std::string(media_type) + "; charset=utf-8",
          .headers = {{"Content-Security-Policy", kContentSecurityPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      // A new version of the program may contain a new page, so browsers must ask
                      // again.
                      {"Cache-Control", "no-cache"}}};
}

HttpResponse part_response(std::string_view name) {
  const auto* const file = std::ranges::find(
      kEmbeddedFiles, name, &std::pair<std::string_view, std::string_view>::first);
  if (file == std::end(kEmbeddedFiles)) {
    throw ApiError(404, fmt::format("The page has no file '{}'.", name));
  }
  return file_response(file->second, name.ends_with(".css") ? "text/css" : "text/javascript");
}

}  // namespace

void add_page_routes(Router& router) {
  router.add({.method = "GET",
              .path = "/",
              .access = Access::open,
              .answer_types = {"text/html"},
              .summary = "A page to chat with the model.",
              .handle = [](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond(file_response(kIndexHtml, "text/html"));
              }});
  Route part{.method = "GET",
             .path = "/page/{file}",
             .access = Access::open,
             .answer_types = {"text/javascript", "text/css"},
             .summary = "A script or a style sheet of the chat page."};
  part.handle = [route = part](const HttpRequest& request, const ExchangeRef& exchange) {
    exchange->respond(part_response(route.parameter_in(request.path)));
  };
  router.add(std::move(part));
}

}  // namespace reprise::server
