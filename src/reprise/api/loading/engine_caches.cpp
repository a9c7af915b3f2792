#include "reprise/api/loading/engine_caches.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "reprise/api/loading/draft_engine.h"
#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/engine_runner.h"
#include "reprise/api/options/memory_size.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/api/options/state_caching.h"
#include "reprise/cudagraph/verify/verify_graphs.h"
#include "reprise/device/reservable_memory.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {
namespace {

// Dummy batches write to no block, so the null block and one more suffice.
constexpr int64_t kFirstBlocks = 2;
// Strict verification replays each graph with made-up requests, at most 64 tokens at a time.
constexpr int64_t kBlocksOfTrial = 256;
// The memory that the host uses for a block: its entry in the pool, and its hash and place in the
// index.
constexpr int64_t kHostBytesPerBlock = 256;

size_t granularity_of(const LoadedEngine& engine) {
  device::ReservableMemory* memory = device::reservable_memory(*engine.device->device);
  return memory == nullptr ? 1 : memory->granularity();
}

/// How bytes of caches are counted.
enum class Counting : uint8_t {
  exact,    // the number of bytes is not rounded, as with --kv-cache-memory-bytes
  rounded,  // to granules of the device
  // Rounded up, with the host's memory for each block: this has to fit into the measured memory.
  whole,
};

int64_t bytes_of_blocks(const LoadedEngine& engine, int64_t num_blocks, Counting counting) {
  const std::vector<size_t> rows = kv_cache_layout(engine, 1).row_bytes();
  const bool is_exact = counting == Counting::exact;
  const size_t granularity = is_exact ? 1 : granularity_of(engine);
  const auto bytes =
      static_cast<int64_t>(kv_cache::GrowingRows::bytes_of(rows, num_blocks, granularity));
  const bool has_lists = counting == Counting::whole && !engine.device->is_gpu();
  return has_lists ? bytes + num_blocks * kHostBytesPerBlock : bytes;
}

int64_t bytes_of_slots(const LoadedEngine& engine, int64_t num_snapshots, Counting counting) {
  const kv_cache::StateCacheLayout states = state_cache_layout(engine, num_snapshots);
  return static_cast<int64_t>(
      kv_cache::GrowingRows::bytes_of(states.row_bytes(),
                                      states.num_slots,
                                      counting == Counting::exact ? 1 : granularity_of(engine)));
}

BytesOfBlocks bytes_of_caches(const LoadedEngine& main,
                              const LoadedEngine* draft,
                              Counting counting) {
  return [&main, draft, counting](int64_t num_blocks) {
    const int64_t bytes = bytes_of_blocks(main, num_blocks, counting);
    if (draft == nullptr) return bytes;
    return bytes + bytes_of_blocks(*draft, num_draft_blocks(*draft, num_blocks), counting);
  };
}

int64_t bytes_of_runner(const LoadedEngine& engine) {
  if (engine.runner == nullptr) return 0;
  return static_cast<int64_t>(engine.runner->kv_cache().bytes() + engine.runner->states().bytes());
}

/// The sizes of the caches that fit into the memory that is left now. The caches of existing
/// runners count as left. `to_come`: bytes that will be allocated before the caches.
KvCacheSize size_caches(LoadedEngine& main, LoadedEngine* draft, int64_t to_come) {
  const ResolvedOptions& options = *main.options;
  const DeviceMemory kind = main.device->is_gpu() ? DeviceMemory::gpu : DeviceMemory::host;
  const device::MemoryInfo info = main.device->device->memory();
  main.report.memory_budget = memory_budget(main.args, info, kind);
  int64_t in_caches = bytes_of_runner(main);
  if (draft != nullptr) in_caches += bytes_of_runner(*draft);
  CacheMemory memory =
      cache_memory(main.args, info, kind, in_caches - drafter_bytes(draft) - to_come);
  // --kv-cache-memory-bytes counts the caches' own bytes, as in vLLM.
  const Counting counting = main.args.kv_cache_memory_bytes ? Counting::exact : Counting::whole;
  const int64_t first_states = bytes_of_slots(main, 0, counting);
  memory = without_states(memory, main.args, first_states);
  if (draft != nullptr) {
    memory = without_states(memory, draft->args, bytes_of_slots(*draft, 0, Counting::whole));
  }
  int64_t num_snapshots = 0;
  if (options.caches_prefixes && options.config.num_recurrent_layers() > 0) {
    num_snapshots = num_state_snapshots(main.args,
                                        memory,
                                        kv_cache_layout(main, 1),
                                        state_cache_layout(main, 0),
                                        options.max_model_len);
    memory.bytes -= bytes_of_slots(main, num_snapshots, counting) - first_states;
  }
  KvCacheSize size = size_kv_cache(main.args,
                                   kv_cache_layout(main, 1),
                                   options.max_model_len,
                                   memory,
                                   bytes_of_caches(main, draft, counting));
  size.num_state_snapshots = num_snapshots;
  if (main.args.ranks != nullptr) size = agree_on_cache_size(*main.args.ranks, size);
  return size;
}

void report_size(LoadedEngine& engine, const KvCacheSize& size) {
  StartupReport& report = engine.report;
  const kv_cache::KvCacheLayout layout = kv_cache_layout(engine, size.num_blocks);
  const kv_cache::StateCacheLayout states = state_cache_layout(engine, size.num_state_snapshots);
  report.kv_cache_dtype = engine.options->kv_cache_dtype.name;
  report.max_model_len = size.max_model_len;
  report.num_kv_blocks = size.num_blocks;
  report.kv_block_size = engine.args.block_size;
  report.kv_cache_bytes = static_cast<size_t>(size.num_blocks) * layout.bytes_per_block();
  report.num_state_slots = states.num_slots;
  report.num_state_snapshots = size.num_state_snapshots;
  report.state_cache_bytes = static_cast<size_t>(report.num_state_slots) * states.bytes_per_slot();
}

/// Sizes of the draft model's cache for a main model with this many blocks.
KvCacheSize size_of_draft(LoadedEngine& draft, int64_t num_main_blocks) {
  ResolvedOptions& options = *draft.options;
  const int64_t longest = (num_main_blocks - 1) * draft.args.block_size;
  options.max_model_len = static_cast<int32_t>(std::min<int64_t>(options.max_model_len, longest));
  draft.args.max_model_len = options.max_model_len;
  return {.num_blocks = num_draft_blocks(draft, num_main_blocks),
          .max_model_len = options.max_model_len};
}

/// A runner whose caches have addresses for `size`. `num_blocks`: the number of blocks that have
/// memory at first.
void make_runner(LoadedEngine& engine, const KvCacheSize& size, int64_t num_blocks) {
  const ResolvedOptions& options = *engine.options;
  kv_cache::KvCacheLayout blocks = kv_cache_layout(engine, num_blocks);
  kv_cache::StateCacheLayout states = state_cache_layout(engine, size.num_state_snapshots);
  blocks.num_addressed_blocks = size.num_blocks;
  if (num_blocks < size.num_blocks) {
    states.num_addressed_slots = states.num_slots;
    states.num_slots = state_cache_layout(engine, 0).num_slots;
  }
  engine.runner = create_runner(
      engine, blocks, states, config::dispatcher_options(options.graph_inputs, options.graphs));
}

int64_t first_blocks(const LoadedEngine& engine) {
  const bool is_strict =
      cudagraph::parse_verify_graphs("--verify-graphs", engine.args.verify_graphs) ==
      cudagraph::VerifyGraphs::strict;
  return is_strict ? kBlocksOfTrial : kFirstBlocks;
}

void reserve_runner(LoadedEngine& engine, KvCacheSize size) {
  const bool grows = device::reservable_memory(*engine.device->device) != nullptr;
  const int64_t with_memory = std::min(first_blocks(engine), size.num_blocks);
  // Without reserved addresses, this runner only serves to measure the memory of its graphs.
  if (!grows) size = {.num_blocks = with_memory, .max_model_len = size.max_model_len};
  make_runner(engine, size, with_memory);
}

}  // namespace

CacheSizes plan_caches(LoadedEngine& main, LoadedEngine* draft, int64_t weight_bytes) {
  CacheSizes sizes{.main = size_caches(main, draft, weight_bytes)};
  sizes.block_bytes = bytes_of_blocks(main, sizes.main.num_blocks, Counting::rounded);
  sizes.state_bytes = bytes_of_slots(main, sizes.main.num_state_snapshots, Counting::rounded);
  if (draft != nullptr) {
    sizes.draft = size_of_draft(*draft, sizes.main.num_blocks);
    sizes.block_bytes += bytes_of_blocks(*draft, sizes.draft.num_blocks, Counting::rounded);
    sizes.state_bytes += bytes_of_slots(*draft, 0, Counting::rounded);
  }
  return sizes;
}

void reserve_caches(LoadedEngine& main, LoadedEngine* draft) {
  if (main.args.replicas != nullptr && main.args.is_in_lockstep()) {
    main.data_parallel = std::make_unique<runner::DataParallelSteps>(*main.args.replicas);
  }
  KvCacheSize size = size_caches(main, draft, 0);
  // A program contains the number of slots that have addresses. The largest number does not depend
  // on the machine's memory, so the next start finds the program in the compile cache.
  if (size.num_state_snapshots > 0) size.num_state_snapshots = most_state_snapshots(main.args);
  report_size(main, size);
  reserve_runner(main, size);
  if (draft == nullptr) return;
  const KvCacheSize of_draft = size_of_draft(*draft, size.num_blocks);
  report_size(*draft, of_draft);
  reserve_runner(*draft, of_draft);
}

CacheGrowth give_caches_the_rest(LoadedEngine& main, LoadedEngine* draft) {
  const bool grows = device::reservable_memory(*main.device->device) != nullptr;
  const int64_t most_blocks = main.report.num_kv_blocks;
  KvCacheSize size = size_caches(main, draft, 0);
  // Memory that other processes gave back since then has no reserved addresses.
  size.num_blocks = std::min(size.num_blocks, most_blocks);
  const auto finish = [grows](LoadedEngine& engine, const KvCacheSize& of_engine) {
    report_size(engine, of_engine);
    if (grows) {
      engine.runner->grow_caches(of_engine.num_blocks, engine.report.num_state_slots);
    } else {
      engine.runner.reset();  // release its memory before the new runner allocates
      make_runner(engine, of_engine, of_engine.num_blocks);
    }
  };
  finish(main, size);
  if (draft != nullptr) finish(*draft, size_of_draft(*draft, size.num_blocks));
  return grows ? CacheGrowth::in_place : CacheGrowth::by_new_runners;
}

}  // namespace reprise::api
