#pragma once

#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds --kv-cache-dtype under a heading of --help; commands that load no model use it too.
void add_kv_cache_dtype(OptionTable& table, std::string group, std::string& dtype);
/// Adds --packed-weights-cache under a heading of --help.
void add_packed_weights_cache(OptionTable& table, std::string group, std::string& place);

/// Adds the options of the KV cache.
void add_cache_options(OptionTable& table, api::EngineArgs& args);

}  // namespace reprise::cli
