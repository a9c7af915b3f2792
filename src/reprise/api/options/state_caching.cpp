#include "reprise/api/options/state_caching.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

/// More copies than these for each request are rarely found again before they are reused.
constexpr int64_t kMostSnapshotsPerRequest = 4;

void check_retention_interval(const EngineArgs& args) {
  const int32_t interval = args.prefix_cache_retention_interval;
  if (interval >= 0 && interval % args.block_size == 0) return;
  throw InvalidArgument(fmt::format(
      "--prefix-cache-retention-interval: expected 0 or a multiple of --block-size ({}), "
      "got {}",
      args.block_size,
      interval));
}

bool caches_states(const EngineArgs& args,
                   const weights::ModelConfig& config,
                   std::vector<std::string>& warnings) {
  const bool has_attention = config.num_attention_layers() > 0;
  const bool is_asked = args.enable_prefix_caching.value_or(has_attention);
  if (!is_asked) {
    if (args.mamba_cache_mode == "align") {
      warnings.emplace_back(
          "Mamba cache mode is set to 'none' when prefix caching is disabled; give "
          "--enable-prefix-caching");
    }
    return false;
  }
  if (args.mamba_cache_mode == "none") return false;
  if (!args.enable_chunked_prefill) {
    warnings.emplace_back(
        "Prefix caching is off: states of recurrent layers are kept where chunks of prompts end, "
        "which needs --enable-chunked-prefill");
    return false;
  }
  return true;
}

}  // namespace

bool caches_prefixes(const EngineArgs& args,
                     const weights::ModelConfig& config,
                     std::vector<std::string>& warnings) {
  check_retention_interval(args);
  const std::string& mode = args.mamba_cache_mode;
  if (!mode.empty() && mode != "align" && mode != "none") {
    throw InvalidArgument(
        fmt::format("--mamba-cache-mode: expected align or none, got '{}'", mode));
  }
  if (config.num_recurrent_layers() > 0) return caches_states(args, config, warnings);
  if (!args.mamba_cache_mode.empty() || args.prefix_cache_retention_interval > 0) {
    warnings.push_back(fmt::format(
        "--mamba-cache-mode and --prefix-cache-retention-interval have no effect: {} has "
        "no recurrent layers",
        weights::architecture_name(config.architecture)));
  }
  if (config.encoder) {
    // The prompts of the decoder are the same few tokens, after texts that differ.
    if (args.enable_prefix_caching.value_or(false)) {
      warnings.push_back(
          fmt::format("--enable-prefix-caching has no effect: {} has an encoder, whose texts are "
                      "not shared",
                      weights::architecture_name(config.architecture)));
    }
    return false;
  }
  return !config.computes_whole_texts() && args.enable_prefix_caching.value_or(true);
}

int64_t most_state_snapshots(const EngineArgs& args) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kMostSnapshotsPerRequest) *
                                             static_cast<uint64_t>(args.max_num_seqs)));
}

int64_t num_state_snapshots(const EngineArgs& args,
                            const CacheMemory& memory,
                            const kv_cache::KvCacheLayout& block,
                            const kv_cache::StateCacheLayout& states,
                            int32_t max_model_len) {
  const auto bytes_per_block = static_cast<int64_t>(block.bytes_per_block());
  const auto bytes_per_slot = static_cast<int64_t>(states.bytes_per_slot());
  const int64_t blocks_per_request = (max_model_len + args.block_size - 1) / args.block_size;
  // Blocks get half of the memory, and at least what the longest request and the null block need.
  const int64_t for_blocks =
      bytes_per_block == 0 ? 0
                           : std::max(memory.bytes / 2, (blocks_per_request + 1) * bytes_per_block);
  const int64_t fitting = std::max<int64_t>(memory.bytes - for_blocks, 0) / bytes_per_slot;
  const int64_t useful = most_state_snapshots(args);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::min(fitting, useful))));
}

}  // namespace reprise::api
