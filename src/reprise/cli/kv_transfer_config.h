#pragma once

#include "reprise/cli/option_table.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"

namespace reprise::cli {

/// Adds vLLM's --kv-transfer-config, as JSON or field by field. `config` must outlive `table`.
void add_kv_transfer_config(OptionTable& table, kv_cache::KvTransferConfig& config);

/// REPRISE_KV_TRANSFER_SECRET, unless a secret_file was given. \throws InvalidArgument
void read_kv_transfer_environment(kv_cache::KvTransferConfig& config);

/// \throws InvalidArgument for fields that do not go together
void check_kv_transfer_config(const kv_cache::KvTransferConfig& config);

}  // namespace reprise::cli
