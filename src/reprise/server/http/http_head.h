#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/system/error_code.hpp>
#include <optional>
#include <string_view>

#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_exchange.h"
#include "reprise/server/http/http_server.h"

namespace reprise::server {

using RequestHead = boost::beast::http::request_header<>;

/// What is wrong with a request that Beast could not read; nothing when its client went: nobody is
/// there to be answered.
[[nodiscard]] std::optional<ApiError> protocol_error(const boost::system::error_code& error);

/// What breaks the rules of HTTP or a limit in a head that Beast could read.
[[nodiscard]] std::optional<ApiError> check_head(const RequestHead& head, const HttpLimits& limits);

/// The head as routes see it. `root_path` is taken off its path where it is there.
[[nodiscard]] HttpRequest read_head(const RequestHead& head, std::string_view root_path);

/// "GET /health HTTP/1.1", not longer than a line of the log should be.
[[nodiscard]] std::string request_line(const RequestHead& head);

}  // namespace reprise::server
