#pragma once

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

/// Where prompts may be cut if a device computes states of recurrent layers in chunks: only at
/// multiples of a chunk, counted from the first token of the request. Then every division of a
/// prompt into steps has the same chunks, and so the same bits.
class ChunkRule {
 public:
  /// `chunk_tokens`: see SchedulerConfig::state_chunk_tokens.
  explicit ChunkRule(int chunk_tokens) : chunk_tokens_(chunk_tokens) {}

  /// How many of the next `num_tokens` tokens the step computes. `num_left`: the tokens that the
  /// request has left. 0: the request has to wait for a step with more room.
  [[nodiscard]] int limit(const Request& request, int num_tokens, int num_left) const;

 private:
  int chunk_tokens_;
};

}  // namespace reprise::scheduler
