#pragma once

#include <cstdint>
#include <string>

#include "reprise/cli/option_table.h"

namespace reprise::cli {

/// Adds --attention-backend and --flash-attn-version, and --attention-config, which says both as
/// one object. Commands that load no model use these too.
void add_attention_options(OptionTable& table, std::string& backend, int32_t& flash_attn_version);

}  // namespace reprise::cli
