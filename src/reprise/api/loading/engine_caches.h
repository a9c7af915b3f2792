#pragma once

#include <cstdint>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/memory_size.h"

/// The caches of an engine that starts (docs/adr/0092). Graphs are captured first, over caches
/// whose blocks all have addresses while only a few have memory. Then the memory that weights,
/// activations and graphs use is measured, and the caches get the rest.
namespace reprise::api {

/// The sizes of the caches of both models, and their memory after rounding.
struct CacheSizes {
  KvCacheSize main;
  KvCacheSize draft;  // without blocks if drafts need no model
  int64_t block_bytes = 0;
  int64_t state_bytes = 0;
};

/// The largest caches that a start could make when this many bytes of weights are loaded. The
/// engines have options and a device. \throws InvalidArgument when even these are too small
[[nodiscard]] CacheSizes plan_caches(LoadedEngine& main, LoadedEngine* draft, int64_t weight_bytes);

/// Makes the runners, with addresses for the largest caches that could be wanted. The reports then
/// have the sizes of these caches. `draft`: with its weights; nullptr: drafts need no model.
/// \throws OutOfMemory, InvalidArgument when even these caches are too small
void reserve_caches(LoadedEngine& main, LoadedEngine* draft);

/// Whether runners keep their graphs while their caches grow.
enum class CacheGrowth : uint8_t {
  in_place,
  /// The device cannot reserve addresses: the runners were made again, with caches of the right
  /// size. They need their programs and graphs again.
  by_new_runners,
};

/// Gives the caches what is left of the memory. All ranks call it at the same time, and their
/// caches get the size of the smallest. \pre all graphs are captured
/// \throws InvalidArgument that says what does not fit and what helps, OutOfMemory
[[nodiscard]] CacheGrowth give_caches_the_rest(LoadedEngine& main, LoadedEngine* draft);

}  // namespace reprise::api
