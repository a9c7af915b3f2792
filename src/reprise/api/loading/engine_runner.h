#pragma once

#include <cstdint>
#include <memory>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"

/// The stages of a start that make the caches, the runner and the core of a model. `engine`: with
/// the parts that are loaded so far.
namespace reprise::engine {
struct EngineCoreOptions;
}

namespace reprise::runner {
struct GraphSettings;
class ModelRunner;
}  // namespace reprise::runner

namespace reprise::api {

[[nodiscard]] kv_cache::KvCacheLayout kv_cache_layout(const LoadedEngine& engine,
                                                      int64_t num_blocks);
/// The layout of the slots of requests and of `num_snapshots` copies of states.
[[nodiscard]] kv_cache::StateCacheLayout state_cache_layout(const LoadedEngine& engine,
                                                            int64_t num_snapshots);

/// \throws OutOfMemory, InvalidArgument
[[nodiscard]] std::unique_ptr<runner::ModelRunner> create_runner(
    const LoadedEngine& engine,
    const kv_cache::KvCacheLayout& blocks,
    const kv_cache::StateCacheLayout& states,
    const cudagraph::DispatcherOptions& dispatcher);

/// The settings of the runner's graphs, from the options of the engine.
[[nodiscard]] runner::GraphSettings graph_settings(const LoadedEngine& engine);

/// The options of the core, which borrow from the engine. `caches_prefixes`: whether requests share
/// cached prefixes.
[[nodiscard]] engine::EngineCoreOptions core_options(const LoadedEngine& engine,
                                                     bool caches_prefixes);

}  // namespace reprise::api
