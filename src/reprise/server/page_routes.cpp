#include "reprise/server/page_routes.h"

#include "reprise/server/page_files.h"

namespace reprise::server {
namespace {

// The page loads nothing from other servers and runs no inline code; other pages may not frame it.
constexpr const char* kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void add_file(Router& router,
              const char* path,
              const char* media_type,
              const char* summary,
              std::string_view text) {
  router.add({.method = "GET",
              .path = path,
              .access = Access::open,
              .answer_types = {media_type},
              .summary = summary,
              .handle = [media_type, text](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = std::string(text),
                                   .content_type = std::string(media_type) + "; charset=utf-8",
                                   .headers = {{"Content-Security-Policy", kContentSecurityPolicy},
                                               {"X-Content-Type-Options", "nosniff"},
                                               {"Referrer-Policy", "no-referrer"},
                                               // A new version of the program may contain a new
                                               // page, so browsers must ask again.
                                               {"Cache-Control", "no-cache"}}});
              }});
}

}  // namespace

void add_page_routes(Router& router) {
  add_file(router, "/", "text/html", "A page to chat with the model.", kIndexHtml);
  add_file(router, "/chat.css", "text/css", "Of the chat page.", kChatCss);
  add_file(router, "/chat.js", "text/javascript", "Of the chat page.", kChatJs);
}

}  // namespace reprise::server
