#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kv_cache/block_pool.h"
#include "reprise/scheduler/step_entry.h"

namespace reprise::runner {

/// Requests that belong to no scheduler, with made-up tokens and their own blocks, for steps that
/// try or time graphs. None of them has block 0, the null block.
class MadeUpRequests {
 public:
  /// Drops all requests. The next requests together need at most this many tokens and blocks.
  void begin(size_t num_tokens, size_t num_blocks);

  /// A request whose step computes `num_tokens` tokens after `context` earlier tokens.
  struct Request {
    int32_t num_tokens = 1;
    int32_t context = 0;
    int32_t num_drafts = 0;
    kv_cache::StateSlot state_slot = kv_cache::kNullStateSlot;
  };
  void add(const Request& request, int32_t block_size);

  [[nodiscard]] std::span<const scheduler::StepEntry> entries() const noexcept { return entries_; }
  /// The first block that belongs to no request.
  [[nodiscard]] size_t next_block() const noexcept { return next_block_; }

 private:
  // The entries hold views of the other two vectors, so those never grow beyond their reserved
  // memory.
  std::vector<int32_t> token_ids_;
  std::vector<kv_cache::BlockId> block_ids_;
  std::vector<scheduler::StepEntry> entries_;
  size_t next_block_ = 1;
};

}  // namespace reprise::runner
