#include "reprise/kv_cache/kv_cache_manager.h"

#include <fmt/format.h>

#include <cstddef>
#include <ranges>
#include <vector>

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

KvCacheManager::KvCacheManager(int num_blocks,
                               int block_size,
                               PrefixCaching prefix_caching,
                               int num_state_reqs,
                               int num_snapshots,
                               int slots_per_req)
    : pool_(num_blocks, block_size),
      states_(num_state_reqs, slots_per_req),
      prefix_caching_(prefix_caching) {
  if (num_state_reqs == 0 || prefix_caching == PrefixCaching::off) return;
  REPRISE_ASSERT(num_snapshots > 0,
                 "prefix caching of a model with states needs at least one snapshot");
  // Slot 0 is the null slot; the slots after it belong to requests.
  const int first_snapshot = num_state_reqs * slots_per_req + 1;
  snapshots_ = std::make_unique<StateSnapshots>(first_snapshot, num_snapshots);
  pool_.set_follower(&snapshots_->pool());
}

void KvCacheManager::reserve(BlockTable& table, int num_tokens, int num_encoder_tokens) const {
  REPRISE_ASSERT(table.empty(),
                 "reserve() needs an empty block table, but this one has {} blocks",
                 table.num_blocks());
  table.num_encoder_blocks_ = static_cast<size_t>(blocks_for(num_encoder_tokens));
  table.blocks_.reserve(table.num_encoder_blocks_ + static_cast<size_t>(blocks_for(num_tokens)));
}

SlotResult KvCacheManager::allocate_slots(BlockTable& table, int num_tokens) {
  const int num_missing =
      num_encoder_blocks(table) + blocks_for(num_tokens) - static_cast<int>(table.blocks_.size());
  const bool needs_state = states_.num_reqs() > 0 && table.state_slot_ == kNullStateSlot;
  if (num_missing > pool_.num_free_blocks() || (needs_state && states_.num_free() == 0)) {
    return SlotResult::no_blocks;
  }
  if (needs_state) table.state_slot_ = *states_.allocate();
  for (int i = 0; i < num_missing; ++i) {
    const std::optional<BlockId> block = pool_.allocate();
    REPRISE_ASSERT(block.has_value(),
                   "the pool has fewer free blocks than the {} that it reported",
                   num_missing);
    table.blocks_.push_back(*block);
  }
  return SlotResult::allocated;
}

BlockHashChain KvCacheManager::make_chain(const PrefixKey& key) const {
  return prefix_caching_ == PrefixCaching::on ? BlockHashChain(key, block_size())
                                              : BlockHashChain();
}

KvCacheManager::CachedPrefix KvCacheManager::find_prefix(const BlockHashChain& chain,
                                                         int max_blocks) const {
  CachedPrefix found;
  CachedPrefix with_states;
  for (const BlockHash& hash : chain.hashes()) {
    if (found.num_blocks == max_blocks) break;
    const std::optional<BlockId> block = pool_.find(hash);
    if (!block) break;
    ++found.num_blocks;
    found.num_free_blocks += static_cast<int>(pool_.reference_count(*block) == 0);
    if (snapshots_ == nullptr) continue;
    if (const std::optional<StateSlot> snapshot = snapshots_->find(hash)) {
      with_states = found;
      with_states.snapshot = *snapshot;
    }
  }
  CachedPrefix& prefix = snapshots_ == nullptr ? found : with_states;
  prefix.num_blocks_without_states = found.num_blocks;
  return prefix;
}

SlotResult KvCacheManager::allocate_slots_after(BlockTable& table,
                                                const BlockHashChain& chain,
                                                const CachedPrefix& prefix,
                                                int num_tokens) {
  REPRISE_ASSERT(table.empty(),
                 "a prefix needs an empty block table, but this one has {} blocks",
                 table.num_blocks());
  REPRISE_ASSERT(prefix.num_blocks == 0 || table.num_encoder_blocks_ == 0,
                 "a table that begins with blocks of an encoder cannot get a prefix");
  const int num_missing = num_encoder_blocks(table) + blocks_for(num_tokens) - prefix.num_blocks;
  if (num_missing > pool_.num_free_blocks() - prefix.num_free_blocks) return SlotResult::no_blocks;
  if (states_.num_reqs() > 0 && states_.num_free() == 0) return SlotResult::no_blocks;
  if (prefix.snapshot != kNullStateSlot) {
    snapshots_->touch(chain.hashes()[static_cast<size_t>(prefix.num_blocks) - 1]);
  }
  // Add references to all found blocks first, so that none of them is reused as a new block below.
  for (const BlockHash& hash : chain.hashes().first(static_cast<size_t>(prefix.num_blocks))) {
    const std::optional<BlockId> block = pool_.find(hash);
    REPRISE_ASSERT(block.has_value(),
                   "a block of the prefix of {} blocks is not in the cache",
                   prefix.num_blocks);
    pool_.add_reference(*block);
    table.blocks_.push_back(*block);
  }
  table.num_published_ = prefix.num_blocks;
  return allocate_slots(table, num_tokens);
}

void KvCacheManager::publish(BlockTable& table,
                             const BlockHashChain& chain,
                             int num_computed_tokens,
                             const BlockSource& source) {
  if (prefix_caching_ == PrefixCaching::off) return;
  const int num_full = num_computed_tokens / block_size();
  int first_new = table.num_published_;
  for (int& i = table.num_published_; i < num_full; ++i) {
    const auto index = static_cast<size_t>(i);
    if (pool_.publish(table.blocks_[index], chain.hashes()[index])) continue;
    // Another block has this hash already, so nothing changes for a listener.
    report_stored(chain, first_new, i, source);
    first_new = i + 1;
  }
  report_stored(chain, first_new, num_full, source);
}

/// Tells the listener of the blocks [from, to) of the chain.
void KvCacheManager::report_stored(const BlockHashChain& chain,
                                   int from,
                                   int to,
                                   const BlockSource& source) {
  if (listener_ == nullptr || from >= to) return;
  const auto first = static_cast<size_t>(from);
  const auto count = static_cast<size_t>(to - from);
  const auto tokens_per_block = static_cast<size_t>(block_size());
  listener_->on_stored(
      {.hashes = chain.hashes().subspan(first, count),
       .parent = from == 0 ? nullptr : &chain.hashes()[first - 1],
       .token_ids = source.token_ids.subspan(first * tokens_per_block, count * tokens_per_block),
       .block_size = block_size(),
       .source = &source});
}

void KvCacheManager::unpublish(BlockTable& table, const BlockHashChain& chain) {
  for (const BlockId block : table.blocks_) pool_.unpublish(block);
  if (snapshots_ == nullptr) return;
  // The block of another request may have the same hash as a snapshot that this request took.
  for (const BlockHash& hash : chain.hashes()) snapshots_->forget(hash);
}

void KvCacheManager::publish_snapshot(StateSlot slot, const BlockHash& hash) {
  if (pool_.find(hash)) {
    snapshots_->publish(slot, hash);
  } else {
    snapshots_->drop(slot);
  }
}

bool KvCacheManager::reset_prefix_cache() {
  if (num_free_blocks() != pool_.num_usable_blocks()) return false;
  pool_.unpublish_all();
  return true;
}

void KvCacheManager::free(BlockTable& table) {
  // The last block is freed first, so the next request that allocates gets the blocks in the old
  // order.
  for (const BlockId block : table.blocks_ | std::views::reverse) pool_.release(block);
  table.blocks_.clear();
  table.num_published_ = 0;
  if (table.state_slot_ != kNullStateSlot) states_.release(table.state_slot_);
  table.state_slot_ = kNullStateSlot;
}

void KvCacheManager::advance_states(BlockTable& table, int count) const noexcept {
  if (table.state_slot_ == kNullStateSlot) return;
  table.state_slot_ = state_slot_behind(table.state_slot_, count, states_.slots_per_req());
}

int KvCacheManager::num_common_prefix_blocks(const BlockTable& a,
                                             const BlockTable& b,
                                             int most) noexcept {
  const int end = std::min({most, a.num_blocks(), b.num_blocks()});
  int i = 0;
  while (i < end && a.blocks_[static_cast<size_t>(i)] == b.blocks_[static_cast<size_t>(i)]) ++i;
  return i;
}

int KvCacheManager::blocks_for(int num_tokens) const noexcept {
  return static_cast<int>((int64_t{num_tokens} + block_size() - 1) / block_size());
}

double KvCacheManager::usage() const noexcept {
  const int num_used = pool_.num_usable_blocks() - pool_.num_free_blocks();
  return static_cast<double>(num_used) / pool_.num_usable_blocks();
}

std::string KvCacheManager::find_broken_invariant(std::span<const BlockTable* const> tables) const {
  if (std::string broken = pool_.find_broken_invariant(); !broken.empty()) return broken;
  std::vector<int> num_owners(static_cast<size_t>(num_blocks()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks_) {
      const auto index = static_cast<size_t>(block);
      if (block == kNullBlock) return "a request owns the null block";
      if (index >= num_owners.size()) return fmt::format("a request owns unknown block {}", index);
      ++num_owners[index];
    }
  }
  for (size_t i = 1; i < num_owners.size(); ++i) {
    const int count = pool_.reference_count(BlockId{static_cast<int32_t>(i)});
    if (count != num_owners[i]) {
      return fmt::format("block {} has {} references and {} owners", i, count, num_owners[i]);
    }
  }
  return find_broken_state_slot(tables);
}

std::string KvCacheManager::find_broken_state_slot(
    std::span<const BlockTable* const> tables) const {
  std::vector<int> num_owners(static_cast<size_t>(states_.num_reqs()), 0);
  int num_owned = 0;
  for (const BlockTable* table : tables) {
    const StateSlot slot = table->state_slot();
    if (slot == kNullStateSlot) continue;
    const auto number = static_cast<int32_t>(slot);
    if (!states_.is_used(slot)) {
      return fmt::format("a request owns state slot {}, which is not in use", number);
    }
    if (++num_owners[states_.circle_of(slot)] > 1) {
      return fmt::format("the circle of state slot {} has several owners", number);
    }
    ++num_owned;
  }
  const int num_used = states_.num_reqs() - states_.num_free();
  if (num_used != num_owned) {
    return fmt::format(
        "{} circles of state slots are in use and {} have owners", num_used, num_owned);
  }
  return snapshots_ == nullptr ? std::string() : snapshots_->find_broken_invariant();
}

}  // namespace reprise::kv_cache
