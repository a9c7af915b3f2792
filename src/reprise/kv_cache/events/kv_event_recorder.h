#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "reprise/kv_cache/cache_listener.h"
#include "reprise/kv_cache/events/kv_events_config.h"

namespace reprise::kv_cache {

/// Writes the changes of a cache as the events of vLLM: BlockStored, BlockRemoved and
/// AllBlocksCleared. At the end of a step it gives away one payload with the events in their order;
/// a step without events gives none. A payload is MessagePack of [seconds since 1970, events, 0],
/// where 0 is the rank among data-parallel engines. Not thread-safe.
class KvEventRecorder final : public CacheListener {
 public:
  using Clock = std::chrono::system_clock;

  /// `on_payload` gets each payload. Uses `encoding` and `use_int_block_hashes` of the config.
  KvEventRecorder(const KvEventsConfig& config,
                  std::function<void(std::string payload)> on_payload,
                  std::function<Clock::time_point()> now = Clock::now);

  void on_stored(const StoredBlocks& blocks) override;
  void on_removed(const BlockHash& hash) override;
  void on_cleared() override;
  void on_step_end() override;

 private:
  class Event;
  void write_hash(const BlockHash& hash);
  void write_extra_keys(const StoredBlocks& blocks);

  bool is_array_;
  bool has_int_hashes_;
  std::function<void(std::string)> on_payload_;
  std::function<Clock::time_point()> now_;
  std::string events_;  // the events of the current step, without the head of their array
  size_t num_events_ = 0;
};

}  // namespace reprise::kv_cache
