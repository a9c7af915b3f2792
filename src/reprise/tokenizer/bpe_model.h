#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/tokenizer/merge_table.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {

struct BpeOptions {
  std::optional<int32_t> unknown_id;
  bool fuse_unknown = false;   // a run of unknown characters becomes one unknown token
  bool byte_fallback = false;  // an unknown character becomes one <0xNN> token per byte
  bool ignore_merges = false;  // a piece that is in the vocabulary is not split
};

/// Byte-pair encoding of one piece of text, in O(n log n): a heap gives the neighbours to merge by
/// rank, then by position. Immutable; each thread uses its own Scratch.
class BpeModel {
 public:
  /// Memory that encode() reuses from piece to piece.
  class Scratch {
   public:
    /// Number of merges taken from the heap so far. Tests use it to check how the work grows.
    [[nodiscard]] uint64_t num_merges_tried() const { return num_merges_tried_; }

   private:
    friend class BpeModel;
    struct Symbol {
      uint32_t id;  // kRemoved once this symbol was merged into the previous one
      int32_t previous;
      int32_t next;
    };
    struct Candidate {
      uint64_t order;   // rank, then position of the left symbol
      uint32_t result;  // id that the pair became when this entry was made
    };
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
    uint64_t num_merges_tried_ = 0;
  };

  /// The tokens that encode() may give.
  enum class Allowed { every_token, no_control_tokens };

  /// `is_control[id]` is true for the ids that `no_control_tokens` excludes.
  BpeModel(Vocabulary vocabulary,
           MergeTable merges,
           const BpeOptions& options,
           std::vector<bool> is_control);

  /// Appends the ids of `piece`. \pre `piece` is well-formed UTF-8 below 2 GiB
  void encode(std::string_view piece,
              Allowed allowed,
              Scratch& scratch,
              std::vector<int32_t>& ids) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  [[nodiscard]] bool is_refused(uint32_t id, Allowed allowed) const {
    return allowed == Allowed::no_control_tokens && id < is_control_.size() && is_control_[id];
  }
  /// Id of one character, or kMissing.
  [[nodiscard]] uint32_t character_id(std::string_view character, Allowed allowed) const;
  void spell(std::string_view piece, Allowed allowed, Scratch& scratch) const;
  void merge(Allowed allowed, Scratch& scratch) const;
  void consider(size_t left, Allowed allowed, Scratch& scratch) const;

  static constexpr uint32_t kMissing = UINT32_MAX;
  static constexpr char32_t kEndOfDirectTable = 0x10000;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::vector<bool> is_control_;
  std::vector<uint32_t> character_ids_;   // by code point below kEndOfDirectTable
  std::array<uint32_t, 256> byte_ids_{};  // ids of the <0xNN> tokens
};

}  // namespace reprise::tokenizer
