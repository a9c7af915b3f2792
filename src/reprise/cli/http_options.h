#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cli/option_table.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {

/// Adds the options that control how `reprise serve` listens: address, TLS, keys, CORS, connection
/// limits, access log. `options` must outlive `table`.
void add_http_options(OptionTable& table, server::ServerOptions& options);

/// Adds --max-answer-bytes to a group of options. `max_answer_bytes` must outlive `table`.
void add_answer_limit(OptionTable& table, const char* group, int64_t& max_answer_bytes);

/// \throws InvalidArgument naming the source of the key, if the key cannot be sent in a header
void add_api_key(std::vector<std::string>& keys, std::string_view from, std::string_view key);

}  // namespace reprise::cli
