#include "reprise/tokenizer/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/assert.h"
#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

constexpr uint32_t kRemoved = UINT32_MAX;
constexpr auto kComesLater = [](const auto& a, const auto& b) { return a.order > b.order; };

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary,
                   MergeTable merges,
                   const BpeOptions& options,
                   std::vector<bool> is_control)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(options),
      is_control_(std::move(is_control)),
      character_ids_(kEndOfDirectTable, kMissing) {
  for (int32_t id = 0; id < vocabulary_.end_id(); ++id) {
    const auto token = vocabulary_.token(id);
    if (!token || token->empty() || token->size() != utf8_length(token->front())) continue;
    size_t position = 0;
    const char32_t code_point = next_code_point(*token, position);
    if (code_point < kEndOfDirectTable) character_ids_[code_point] = static_cast<uint32_t>(id);
  }
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto id = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
    byte_ids_[byte] = id ? static_cast<uint32_t>(*id) : kMissing;
  }
}

uint32_t BpeModel::character_id(std::string_view character, Allowed allowed) const {
  size_t position = 0;
  const char32_t code_point = next_code_point(character, position);
  uint32_t id = kMissing;
  if (code_point < kEndOfDirectTable) {
    id = character_ids_[code_point];
  } else if (const auto found = vocabulary_.find(character)) {
    id = static_cast<uint32_t>(*found);
  }
  return id == kMissing || is_refused(id, allowed) ? kMissing : id;
}

void BpeModel::spell(std::string_view piece, Allowed allowed, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto add = [&](uint32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  };
  bool unknown_is_pending = false;
  for (size_t begin = 0; begin < piece.size();) {
    const std::string_view character = piece.substr(begin, utf8_length(piece[begin]));
    begin += character.size();
    const uint32_t id = character_id(character, allowed);
    if (id != kMissing) {
      if (unknown_is_pending) add(static_cast<uint32_t>(*options_.unknown_id));
      unknown_is_pending = false;
      add(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (options_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char byte) {
          return byte_id(byte) != kMissing && !is_refused(byte_id(byte), allowed);
        })) {
      // A pending unknown token stays pending here: this gives the same order as the reference (the
      // `tokenizers` package).
      for (const char byte : character) add(byte_id(byte));
      continue;
    }
    if (!options_.unknown_id) continue;  // the reference drops the character
    if (unknown_is_pending && !options_.fuse_unknown)
      add(static_cast<uint32_t>(*options_.unknown_id));
    unknown_is_pending = true;
  }
  if (unknown_is_pending) add(static_cast<uint32_t>(*options_.unknown_id));
  if (!symbols.empty()) symbols.back().next = -1;
}

void BpeModel::consider(size_t left, Allowed allowed, Scratch& scratch) const {
  const auto& symbols = scratch.symbols_;
  const auto right = static_cast<size_t>(symbols[left].next);
  const MergeRule* rule = merges_.find(symbols[left].id, symbols[right].id);
  if (rule == nullptr || is_refused(rule->result, allowed)) return;
  scratch.heap_.push_back({uint64_t{rule->rank} << 32 | left, rule->result});
}

void BpeModel::merge(Allowed allowed, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(i, allowed, scratch);
  std::make_heap(heap.begin(), heap.end(), kComesLater);
  const auto push = [&](size_t left) {
    const size_t before = heap.size();
    consider(left, allowed, scratch);
    if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), kComesLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kComesLater);
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    ++scratch.num_merges_tried_;
    const auto left = static_cast<size_t>(top.order & UINT32_MAX);
    if (symbols[left].id == kRemoved || symbols[left].next < 0) continue;
    const auto right = static_cast<size_t>(symbols[left].next);
    // An entry is stale unless the pair still becomes the same token. Like the reference, this
    // compares only the token and not the rank: a pair whose parts changed but that still becomes
    // the same token merges at its old, earlier rank.
    const MergeRule* rule = merges_.find(symbols[left].id, symbols[right].id);
    if (rule == nullptr || rule->result != top.result) continue;
    symbols[left].id = top.result;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kRemoved;
    if (symbols[left].next >= 0) {
      symbols[static_cast<size_t>(symbols[left].next)].previous = static_cast<int32_t>(left);
      push(left);
    }
    if (symbols[left].previous >= 0) push(static_cast<size_t>(symbols[left].previous));
  }
}

void BpeModel::encode(std::string_view piece,
                      Allowed allowed,
                      Scratch& scratch,
                      std::vector<int32_t>& ids) const {
  REPRISE_ASSERT(piece.size() < INT32_MAX, "a piece of {} bytes", piece.size());
  if (piece.empty()) return;
  if (options_.ignore_merges) {
    const auto id = vocabulary_.find(piece);
    if (id && !is_refused(static_cast<uint32_t>(*id), allowed)) {
      ids.push_back(*id);
      return;
    }
  }
  spell(piece, allowed, scratch);
  merge(allowed, scratch);
  for (int32_t i = scratch.symbols_.empty() ? -1 : 0; i >= 0;) {
    const Scratch::Symbol& symbol = scratch.symbols_[static_cast<size_t>(i)];
    ids.push_back(static_cast<int32_t>(symbol.id));
    i = symbol.next;
  }
}

}  // namespace reprise::tokenizer
