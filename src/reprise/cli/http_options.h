#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {

/// Where and how `reprise serve` listens: address, TLS, keys, CORS, limits of connections, log of
/// accesses. `options` must outlive `table`.
void add_http_options(OptionTable& table, server::ServerOptions& options);

/// \throws InvalidArgument naming where the key is from, unless it can be sent in a header
void add_api_key(std::vector<std::string>& keys, std::string_view from, std::string_view key);

}  // namespace reprise::cli
