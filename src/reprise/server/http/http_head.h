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

/// The answer to a request that Beast could not parse, or nullopt if the client closed the
/// connection and will read no answer. `unread` are the bytes that Beast has received but not
/// parsed; they begin with the faulty part of the request.
[[nodiscard]] std::optional<ApiError> protocol_error(const boost::system::error_code& error,
                                                     std::string_view unread);

/// The violation of an HTTP rule or of a limit in a head that Beast could read; nullopt when there
/// is none.
[[nodiscard]] std::optional<ApiError> check_head(const RequestHead& head, const HttpLimits& limits);

/// Converts the head to the form that routes read. Removes `root_path` from the start of the path
/// when it is there.
[[nodiscard]] HttpRequest read_head(const RequestHead& head, std::string_view root_path);

/// "GET /health HTTP/1.1", cut to the length that fits a log line.
[[nodiscard]] std::string request_line(const RequestHead& head);

}  // namespace reprise::server
