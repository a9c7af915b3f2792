#pragma once

#include <boost/beast/core/tcp_stream.hpp>
#include <functional>
#include <string>

#include "reprise/http_client/http_proxy.h"

namespace reprise::http_client {

/// Asks the proxy at the other end of `stream` for a tunnel to `server`. `on_end` gets an empty
/// text when the stream leads to the server, otherwise the reason why it does not. The stream must
/// live until then.
void async_open_tunnel(boost::beast::tcp_stream& stream,
                       const BaseUrl& server,
                       const HttpProxy& proxy,
                       std::function<void(const std::string& error)> on_end);

}  // namespace reprise::http_client
