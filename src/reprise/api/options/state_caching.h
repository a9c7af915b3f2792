#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/memory_size.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/weights/config/model_config.h"

/// Prefix caching of models with recurrent layers, whose cached prefixes need copies of states.
namespace reprise::api {

/// Whether requests share cached prefixes. Without --enable-prefix-caching: yes, as in vLLM except
/// for encoders and for models that have recurrent layers and no attention. Adds warnings for
/// options that have no effect. \throws InvalidArgument for options that cannot work
[[nodiscard]] bool caches_prefixes(const EngineArgs& args,
                                   const weights::ModelConfig& config,
                                   std::vector<std::string>& warnings);

/// The most copies of states that are kept, whatever the memory is. A power of two.
[[nodiscard]] int64_t most_state_snapshots(const EngineArgs& args);

/// How many copies of states the cache holds. `memory` is left for blocks and copies; `block` and
/// `states` describe one block and one slot. A power of two. 0: not even one fits.
[[nodiscard]] int64_t num_state_snapshots(const EngineArgs& args,
                                          const CacheMemory& memory,
                                          const kv_cache::KvCacheLayout& block,
                                          const kv_cache::StateCacheLayout& states,
                                          int32_t max_model_len);

}  // namespace reprise::api
