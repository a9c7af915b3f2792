#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds flags that model cards still have and that vLLM has replaced by others: --task,
/// --rope-scaling, --rope-theta.
void add_older_options(OptionTable& table, api::EngineArgs& args);

}  // namespace reprise::cli
