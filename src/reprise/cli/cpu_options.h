#pragma once

#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds the options of the CPU device under a heading of --help: its threads and kernels.
void add_cpu_options(OptionTable& table, const std::string& group, api::EngineArgs& args);

}  // namespace reprise::cli
