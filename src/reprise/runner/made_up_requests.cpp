#include "reprise/runner/made_up_requests.h"

#include "reprise/base/assert.h"

namespace reprise::runner {

void MadeUpRequests::begin(size_t num_tokens, size_t num_blocks) {
  entries_.clear();
  token_ids_.clear();
  block_ids_.clear();
  next_block_ = 1;
  token_ids_.reserve(num_tokens);
  block_ids_.reserve(num_blocks);
}

void MadeUpRequests::add(const Request& request, int32_t block_size) {
  const auto num_tokens = static_cast<size_t>(request.num_tokens);
  const auto num_blocks =
      static_cast<size_t>((request.context + request.num_tokens + block_size - 1) / block_size);
  REPRISE_ASSERT(token_ids_.size() + num_tokens <= token_ids_.capacity() &&
                     block_ids_.size() + num_blocks <= block_ids_.capacity(),
                 "the requests have more tokens or blocks than begin() was given");
  const auto index = static_cast<int32_t>(entries_.size());
  for (int32_t i = 0; i < request.num_tokens; ++i) token_ids_.push_back((3 + 7 * i + index) % 16);
  for (size_t i = 0; i < num_blocks; ++i) {
    block_ids_.push_back(kv_cache::BlockId{static_cast<int32_t>(next_block_++)});
  }
  entries_.push_back({.token_ids = std::span(token_ids_).last(num_tokens),
                      .num_computed_tokens = request.context,
                      .block_ids = std::span(block_ids_).last(num_blocks),
                      .state_slot = request.state_slot,
                      .samples = true,
                      .num_drafts = request.num_drafts});
}

}  // namespace reprise::runner
