#include "reprise/scheduler/chunk_rule.h"

#include <algorithm>

namespace reprise::scheduler {

int ChunkRule::limit(const Request& request, int num_tokens, int num_left) const {
  if (chunk_tokens_ == 1 || num_tokens == 0 || !request.is_in_prefill()) return num_tokens;
  const int position = request.num_computed_tokens();
  // A request that begins at a snapshot of an answer may begin one token before a chunk ends. A
  // device computes a step of one token like a token of an answer, so this token is always alone.
  if ((position + 1) % chunk_tokens_ == 0) return 1;
  if (num_tokens == num_left) return num_tokens;
  const int end = (position + num_tokens) / chunk_tokens_ * chunk_tokens_;
  return std::max(end - position, 0);
}

}  // namespace reprise::scheduler
