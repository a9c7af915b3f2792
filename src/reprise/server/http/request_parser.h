#pragma once

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

#include "reprise/server/http/request_body.h"

namespace reprise::server {

/// Beast's parser, but it refuses a header that is folded over several lines. Another server in
/// front could read such lines as separate headers, and RFC 9112 (5.2) lets a server refuse them.
/// Private to http_session.
class RequestParser : public boost::beast::http::request_parser<RequestBody> {
 private:
  void on_field_impl(boost::beast::http::field field,
                     boost::beast::string_view name,
                     boost::beast::string_view value,
                     boost::beast::error_code& error) override {
    // The value of an unfolded header comes right after its name, a colon and spaces. Beast copies
    // a joined value elsewhere, or leaves a line end before it.
    const char* at = name.data() + name.size() + 1;
    while (*at == ' ' || *at == '\t') ++at;
    if (at != value.data()) {
      error = boost::beast::http::error::bad_value;
      return;
    }
    get().insert(field, name, value);
  }
};

}  // namespace reprise::server
