#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::tokenizer {

/// The rule that merges a pair of neighbouring tokens.
struct MergeRule {
  uint32_t rank = 0;    // lower merges first
  uint32_t result = 0;  // token id
};

/// Pair of token ids -> rule; a flat table with linear probing.
class MergeTable {
 public:
  void reserve(size_t num_rules) { rehash(std::bit_ceil(num_rules * 2 + 16)); }

  /// Adds a rule; a later rule for the same pair replaces the earlier one.
  void set(uint32_t left, uint32_t right, MergeRule rule) {
    if ((num_rules_ + 1) * 2 > slots_.size()) rehash(std::bit_ceil(num_rules_ * 4 + 16));
    Slot& slot = slots_[slot_of(key_of(left, right))];
    if (slot.key == kEmpty) ++num_rules_;
    slot = {key_of(left, right), rule};
  }

  /// Null when the pair does not merge.
  [[nodiscard]] const MergeRule* find(uint32_t left, uint32_t right) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.rule;
  }

  [[nodiscard]] size_t size() const { return num_rules_; }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // ids are far below 2^32 - 1
  struct Slot {
    uint64_t key = kEmpty;
    MergeRule rule;
  };

  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  [[nodiscard]] size_t slot_of(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    // Fibonacci hashing: the high bits of the product are well mixed.
    size_t slot = (key * 0x9E3779B97F4A7C15ull) >> 32 & mask;
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
    return slot;
  }

  void rehash(size_t num_slots) {
    std::vector<Slot> old(num_slots);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[slot_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // power of two, at most half full
  size_t num_rules_ = 0;
};

}  // namespace reprise::tokenizer
