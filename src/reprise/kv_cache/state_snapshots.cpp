#include "reprise/kv_cache/state_snapshots.h"

namespace reprise::kv_cache {

StateSnapshots::StateSnapshots(int first_slot, int num_snapshots)
    : first_slot_(first_slot), pool_(num_snapshots + 1, /*block_size=*/1) {}

StateSlot StateSnapshots::begin() {
  const std::optional<BlockId> snapshot = pool_.allocate();
  return snapshot ? slot_of(*snapshot) : kNullStateSlot;
}

void StateSnapshots::publish(StateSlot slot, const BlockHash& hash) {
  const BlockId snapshot = snapshot_of(slot);
  const bool is_new = pool_.publish(snapshot, hash);
  pool_.release(snapshot);
  if (!is_new) pool_.touch(hash);
}

void StateSnapshots::drop(StateSlot slot) { pool_.release(snapshot_of(slot)); }

std::optional<StateSlot> StateSnapshots::find(const BlockHash& hash) const {
  const std::optional<BlockId> snapshot = pool_.find(hash);
  return snapshot ? std::optional(slot_of(*snapshot)) : std::nullopt;
}

}  // namespace reprise::kv_cache
