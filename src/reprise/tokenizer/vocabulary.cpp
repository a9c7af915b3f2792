#include "reprise/tokenizer/vocabulary.h"

#include <xxhash.h>

#include <bit>

namespace reprise::tokenizer {
namespace {

uint32_t hash_of(std::string_view token) {
  return static_cast<uint32_t>(XXH3_64bits(token.data(), token.size()));
}

}  // namespace

void Vocabulary::reserve(size_t num_tokens, size_t num_bytes) {
  text_.reserve(num_bytes);
  entries_.reserve(num_tokens);
  rehash(std::bit_ceil(num_tokens * 2 + 16));
}

size_t Vocabulary::slot_of(std::string_view token, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].id != kNone &&
         (slots_[slot].hash != hash || text_of(entries_[slots_[slot].id]) != token)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void Vocabulary::rehash(size_t num_slots) {
  std::vector<Slot> old(num_slots);
  old.swap(slots_);
  const size_t mask = num_slots - 1;
  for (const Slot& entry : old) {
    if (entry.id == kNone) continue;
    size_t slot = entry.hash & mask;
    while (slots_[slot].id != kNone) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

Vocabulary::AddResult Vocabulary::add(std::string_view token, uint32_t id) {
  if (id >= kMaxId || id >= kMaxSparseId + 8 * num_tokens_) return AddResult::id_out_of_range;
  if ((num_tokens_ + 1) * 2 > slots_.size()) rehash(std::bit_ceil(num_tokens_ * 4 + 16));
  const uint32_t hash = hash_of(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (slot.id != kNone) return AddResult::repeated_token;
  if (id >= entries_.size()) entries_.resize(id + 1);
  Entry& entry = entries_[id];
  if (entry.offset != kNone) return AddResult::repeated_id;
  entry = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(token.size())};
  text_.append(token);
  slot = {hash, id};
  ++num_tokens_;
  return AddResult::added;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(token, hash_of(token))];
  if (slot.id == kNone) return std::nullopt;
  return static_cast<int32_t>(slot.id);
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || id >= end_id() || entries_[static_cast<size_t>(id)].offset == kNone)
    return std::nullopt;
  return text_of(entries_[static_cast<size_t>(id)]);
}

}  // namespace reprise::tokenizer
