#include "reprise/server/page_routes.h"

#include <fmt/format.h>
#include <xxhash.h>

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

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// Whether the value of If-None-Match names the tag. Weak tags count, as RFC 9110 says: a proxy
/// that compresses an answer makes its tag weak.
bool names_tag(std::string_view value, std::string_view tag) {
  if (trimmed(value) == "*") return true;
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    std::string_view one = trimmed(value.substr(0, comma));
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == tag) return true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
  return false;
}

HttpResponse file_response(std::string_view text,
                           std::string_view media_type,
                           const HttpRequest& request) {
  const std::string tag = fmt::format("\"{:016x}\"", XXH3_64bits(text.data(), text.size()));
  HttpResponse response{
      .body = std::string(text),
      .content_type = std::string(media_type) + "; charset=utf-8",
      .headers = {{"Content-Security-Policy", kContentSecurityPolicy},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  // A new version of the program may contain a new page, so browsers must ask
                  // again. The tag tells them whether the file is still the one that they have.
                  {"Cache-Control", "no-cache"},
                  {"ETag", tag}}};
  if (names_tag(request.if_none_match, tag)) {
    response.status = 304;
    response.body.clear();
    response.content_type.clear();
  }
  return response;
}

HttpResponse part_response(std::string_view name, const HttpRequest& request) {
  const auto* const file = std::ranges::find(
      kEmbeddedFiles, name, &std::pair<std::string_view, std::string_view>::first);
  if (file == std::end(kEmbeddedFiles)) {
    throw ApiError(404, fmt::format("The page has no file '{}'.", name));
  }
  const char* const media_type = name.ends_with(".css") ? "text/css" : "text/javascript";
  return file_response(file->second, media_type, request);
}

}  // namespace

void add_page_routes(Router& router) {
  router.add({.method = "GET",
              .path = "/",
              .access = Access::open,
              .answer_types = {"text/html"},
              .summary = "A page to chat with the model.",
              .handle = [](const HttpRequest& request, const ExchangeRef& exchange) {
                exchange->respond(file_response(kIndexHtml, "text/html", request));
              }});
  Route part{.method = "GET",
             .path = "/page/{file}",
             .access = Access::open,
             .answer_types = {"text/javascript", "text/css"},
             .summary = "A script or a style sheet of the chat page."};
  part.handle = [route = part](const HttpRequest& request, const ExchangeRef& exchange) {
    exchange->respond(part_response(route.parameter_in(request.path), request));
  };
  router.add(std::move(part));
}

}  // namespace reprise::server
