#pragma once

#include <boost/asio/ssl/context.hpp>
#include <optional>
#include <string>

#include "reprise/server/http/http_server.h"

namespace reprise::server {

/// The server's side of TLS 1.2 and 1.3. Private to http_server.cpp.
/// \throws InvalidArgument naming the option whose file is missing, unreadable or does not fit
[[nodiscard]] boost::asio::ssl::context make_tls_context(const TlsOptions& options);

/// Reads the files again. Returns empty if `context` is now a new one, or else why `context` stays
/// unchanged. Open connections keep the old context, because OpenSSL counts references to it.
[[nodiscard]] std::string refresh_tls_context(std::optional<boost::asio::ssl::context>& context,
                                              const TlsOptions& options);

}  // namespace reprise::server
