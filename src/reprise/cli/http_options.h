#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {

/// Adds the options that control how `reprise serve` listens: address, TLS, keys, CORS, connection
/// limits, access log. `options` must outlive `table`.
void add_http_options(OptionTable& table, server::ServerOptions& options);

/// \throws InvalidArgument naming the source of the key, if the key cannot be sent in a header
void add_api_key(std::vector<std::string>& keys, std::string_view from, std::string_view key);

}  // namespace reprise::cli
