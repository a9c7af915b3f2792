#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/tokenizer/bpe_model.h"
#include "reprise/tokenizer/piece_trie.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {

struct UnigramOptions {
  std::vector<double> scores;  // by id: the logarithm of a token's probability
  int32_t unknown_id = 0;
  bool byte_fallback = false;  // unknown characters become one <0xNN> token per byte
};

/// SentencePiece's Unigram: of all ways to cut a text into tokens, the way with the largest sum of
/// scores (Viterbi). A character without a token costs ten more than the worst token; a run of such
/// characters becomes one unknown token. Immutable; each thread uses its own Scratch.
///
/// Source: the crate `tokenizers`, models/unigram/model.rs.
class UnigramModel {
 public:
  /// The longest token that a file may have. A byte of text costs at most this many steps.
  static constexpr size_t kMaxTokenBytes = 1024;

  /// Memory that encode() reuses from piece to piece.
  class Scratch {
    friend class UnigramModel;
    /// The best way to reach a place of the text: its last token.
    struct Step {
      double score = 0;    // of the whole way
      int32_t begin = -1;  // -1: no way found yet
      int32_t id = 0;
    };
    std::vector<Step> steps_;
    std::vector<int32_t> reversed_;
  };

  /// `is_control[id]` is true for the ids that BpeModel::Allowed::no_control_tokens excludes.
  /// \pre options.scores has one score for each token of `vocabulary`, whose ids have no gaps
  UnigramModel(Vocabulary vocabulary, UnigramOptions options, std::vector<bool> is_control);

  /// Appends the ids of `text`. \pre `text` is well-formed UTF-8 below 2 GiB \throws Abandoned from
  /// `work`
  void encode(std::string_view text,
              BpeModel::Allowed allowed,
              Scratch& scratch,
              WorkMeter& work,
              std::vector<int32_t>& ids) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  [[nodiscard]] bool is_refused(int32_t id, BpeModel::Allowed allowed) const {
    const auto index = static_cast<size_t>(id);
    return allowed == BpeModel::Allowed::no_control_tokens && index < is_control_.size() &&
           is_control_[index];
  }
  void find_best_steps(std::string_view text,
                       BpeModel::Allowed allowed,
                       Scratch& scratch,
                       WorkMeter& work) const;
  /// Appends the ids of a run of unknown characters, the last one first.
  void append_unknown(std::string_view run,
                      BpeModel::Allowed allowed,
                      std::vector<int32_t>& reversed) const;

  Vocabulary vocabulary_;
  UnigramOptions options_;
  std::vector<bool> is_control_;
  PieceTrie trie_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_ids_{};  // ids of the <0xNN> tokens; -1: there is none
};

}  // namespace reprise::tokenizer
