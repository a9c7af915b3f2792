#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/kv_cache/block_pool.h"
#include "reprise/scheduler/step_entry.h"

namespace reprise::runner {

/// Requests of no scheduler, with made-up tokens and blocks of their own, for steps that try or
/// time graphs. Block 0, the null block, belongs to none of them.
class MadeUpRequests {
 public:
  /// Drops all requests. The next ones need at most so many tokens and blocks together.
  void begin(size_t num_tokens, size_t num_blocks);

  /// A request whose step computes `num_tokens` tokens after `context` others.
  struct Request {
    int32_t num_tokens = 1;
    int32_t context = 0;
    int32_t num_drafts = 0;
    kv_cache::StateSlot state_slot = kv_cache::kNullStateSlot;
  };
  void add(const Request& request, int32_t block_size);

  [[nodiscard]] std::span<const scheduler::StepEntry> entries() const noexcept { return entries_; }
  /// The first block that no request has.
  [[nodiscard]] size_t next_block() const noexcept { return next_block_; }

 private:
  // The entries have views of the other two, which therefore never grow beyond their room.
  std::vector<int32_t> token_ids_;
  std::vector<kv_cache::BlockId> block_ids_;
  std::vector<scheduler::StepEntry> entries_;
  size_t next_block_ = 1;
};

}  // namespace reprise::runner
