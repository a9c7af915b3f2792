#pragma once

#include <cstdint>
#include <string>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds --attention-backend and --flash-attn-version, and --attention-config, an object that sets
/// both. Commands that load no model use these options too.
void add_attention_options(OptionTable& table, std::string& backend, int32_t& flash_attn_version);

}  // namespace reprise::cli
