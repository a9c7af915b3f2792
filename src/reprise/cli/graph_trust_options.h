#pragma once

#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds the options that make sure that graphs are right. Also sends the messages of a running
/// engine to standard error; a command with a log of its own sends them there instead.
void add_graph_trust_options(OptionTable& table, const std::string& group, api::EngineArgs& args);

}  // namespace reprise::cli
