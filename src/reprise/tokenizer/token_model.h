#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/tokenizer/bpe_model.h"
#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/unigram_model.h"
#include "reprise/tokenizer/word_piece_model.h"

namespace reprise::tokenizer {

/// The model of tokenizer.json, of any type: turns the pieces that the pre-tokenizer cut into ids.
class TokenModel {
 public:
  /// Memory that encode() reuses from piece to piece.
  struct Scratch {
    BpeModel::Scratch bpe;
    UnigramModel::Scratch unigram;
  };

  /// Takes over the tables of `file`.
  TokenModel(TokenizerFile& file, std::vector<bool> is_control)
      : model_(make(file, std::move(is_control))) {}

  void encode(std::string_view piece,
              BpeModel::Allowed allowed,
              Scratch& scratch,
              WorkMeter& work,
              std::vector<int32_t>& ids) const {
    if (const auto* bpe = std::get_if<BpeModel>(&model_)) {
      bpe->encode(piece, allowed, scratch.bpe, ids);
    } else if (const auto* unigram = std::get_if<UnigramModel>(&model_)) {
      unigram->encode(piece, allowed, scratch.unigram, work, ids);
    } else {
      std::get<WordPieceModel>(model_).encode(piece, allowed, ids);
    }
  }
  [[nodiscard]] const Vocabulary& vocabulary() const {
    return std::visit([](const auto& model) -> const Vocabulary& { return model.vocabulary(); },
                      model_);
  }

 private:
  using Model = std::variant<BpeModel, WordPieceModel, UnigramModel>;

  [[nodiscard]] static Model make(TokenizerFile& file, std::vector<bool> is_control) {
    std::optional<int32_t> unknown = file.bpe.unknown_id;
    if (file.word_piece) unknown = file.word_piece->unknown_id;
    if (file.unigram) unknown = file.unigram->unknown_id;
    if (unknown) is_control[static_cast<size_t>(*unknown)] = false;
    if (file.word_piece) {
      return WordPieceModel(
          std::move(file.vocabulary), std::move(*file.word_piece), std::move(is_control));
    }
    if (file.unigram) {
      return UnigramModel(
          std::move(file.vocabulary), std::move(*file.unigram), std::move(is_control));
    }
    return BpeModel(
        std::move(file.vocabulary), std::move(file.merges), file.bpe, std::move(is_control));
  }

  Model model_;
};

}  // namespace reprise::tokenizer
