#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds --attention-backend and --flash-attn-version, and --attention-config, an object that sets
/// both, and flashinfer_prefill. Commands that load no model use these options too.
void add_attention_options(OptionTable& table, api::EngineArgs& args);

}  // namespace reprise::cli
