#include "reprise/kv_cache/prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

PrefixIndex::PrefixIndex(int num_blocks)
    : hashes_(static_cast<size_t>(num_blocks)),
      has_hash_(static_cast<size_t>(num_blocks), false),
      table_(std::bit_ceil(2 * static_cast<size_t>(num_blocks)), kEmpty),
      mask_(table_.size() - 1) {}

size_t PrefixIndex::home(const BlockHash& hash) const {
  size_t bits = 0;  // SHA-256 bits are uniform, so any of them will do
  std::memcpy(&bits, hash.data(), sizeof bits);
  return bits & mask_;
}

size_t PrefixIndex::place_of(const BlockHash& hash) const {
  size_t place = home(hash);
  while (table_[place] != kEmpty && hashes_[index(table_[place])] != hash) place = next(place);
  return place;
}

std::optional<BlockId> PrefixIndex::find(const BlockHash& hash) const {
  const BlockId block = table_[place_of(hash)];
  return block == kEmpty ? std::nullopt : std::optional(block);
}

bool PrefixIndex::insert(const BlockHash& hash, BlockId block) {
  REPRISE_ASSERT(!contains(block), "block {} has a hash already", static_cast<int32_t>(block));
  const size_t place = place_of(hash);
  if (table_[place] != kEmpty) return false;
  table_[place] = block;
  hashes_[index(block)] = hash;
  has_hash_[index(block)] = true;
  ++size_;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  if (!contains(block)) return;
  size_t gap = place_of(hashes_[index(block)]);
  // Entries after the gap move into it, because find() stops at an empty place. An entry stays if
  // the gap lies before its home place.
  for (size_t place = next(gap); table_[place] != kEmpty; place = next(place)) {
    const size_t wanted = home(hashes_[index(table_[place])]);
    if (((place - wanted) & mask_) < ((place - gap) & mask_)) continue;
    table_[gap] = table_[place];
    gap = place;
  }
  table_[gap] = kEmpty;
  has_hash_[index(block)] = false;
  --size_;
}

void PrefixIndex::clear() {
  std::ranges::fill(table_, kEmpty);
  std::fill(has_hash_.begin(), has_hash_.end(), false);
  size_ = 0;
}

std::string PrefixIndex::find_broken_invariant() const {
  int num_found = 0;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    if (!has_hash_[i]) continue;
    ++num_found;
    const BlockId block{static_cast<int32_t>(i)};
    if (find(hashes_[i]) != block) return fmt::format("block {} is not found by its hash", i);
  }
  const auto num_places =
      std::ranges::count_if(table_, [](BlockId block) { return block != kEmpty; });
  if (num_found != size_ || num_places != size_) {
    return fmt::format(
        "{} blocks have a hash, {} are in the index, {} are counted", num_found, num_places, size_);
  }
  return {};
}

}  // namespace reprise::kv_cache
