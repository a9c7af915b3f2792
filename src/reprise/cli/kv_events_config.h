#pragma once

#include "reprise/cli/option_table.h"
#include "reprise/kv_cache/events/kv_events_config.h"

namespace reprise::cli {

/// Adds vLLM's --kv-events-config, as JSON or field by field. `config` must outlive `table`.
void add_kv_events_config(OptionTable& table, kv_cache::KvEventsConfig& config);

/// Reads VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES. \throws InvalidArgument
void read_kv_events_environment(kv_cache::KvEventsConfig& config);

}  // namespace reprise::cli
