#pragma once

#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// The options that divide a model or its requests among processes.
void add_parallel_options(OptionTable& table, const std::string& group, api::EngineArgs& args);

}  // namespace reprise::cli
