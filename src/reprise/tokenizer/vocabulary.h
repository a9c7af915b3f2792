#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tokenizer {

/// Maps pieces of text to ids and back. All text lies in one buffer and the index is one flat
/// table, so a vocabulary of 150 000 pieces is filled in about 15 ms.
class Vocabulary {
 public:
  /// The table of ids is as long as the highest id. A file with an id above this limit plus eight
  /// times the number of pieces is refused as damaged. The largest published vocabularies have
  /// about 300 000 ids.
  static constexpr uint32_t kMaxSparseId = 1u << 21;
  static constexpr uint32_t kMaxId = 1u << 24;

  enum class AddResult { added, repeated_token, repeated_id, id_out_of_range };

  void reserve(size_t num_tokens, size_t num_bytes);
  [[nodiscard]] AddResult add(std::string_view token, uint32_t id);

  [[nodiscard]] std::optional<int32_t> find(std::string_view token) const;
  /// Nothing when no piece has this id.
  [[nodiscard]] std::optional<std::string_view> token(int32_t id) const;

  [[nodiscard]] size_t size() const { return num_tokens_; }
  /// One more than the highest id.
  [[nodiscard]] int32_t end_id() const { return static_cast<int32_t>(entries_.size()); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint32_t offset = kNone;
    uint32_t length = 0;
  };
  struct Slot {
    uint32_t hash = 0;
    uint32_t id = kNone;
  };

  [[nodiscard]] std::string_view text_of(const Entry& entry) const {
    return std::string_view(text_).substr(entry.offset, entry.length);
  }
  /// The slot that holds `token`, or the empty slot where it belongs. \pre slots_ has room
  [[nodiscard]] size_t slot_of(std::string_view token, uint32_t hash) const;
  void rehash(size_t num_slots);

  std::string text_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // power of two, at most half full
  size_t num_tokens_ = 0;
};

}  // namespace reprise::tokenizer
