#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds the options of adapters: --enable-lora, --lora-modules, --max-loras, ...
void add_lora_options(OptionTable& table, api::EngineArgs& args);

}  // namespace reprise::cli
