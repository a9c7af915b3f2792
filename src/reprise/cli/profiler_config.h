#pragma once

#include "reprise/cli/option_table.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {

/// Adds vLLM's --profiler-config, as JSON or field by field. `options` must outlive `table`.
void add_profiler_config(OptionTable& table, server::ProfilerOptions& options);

}  // namespace reprise::cli
