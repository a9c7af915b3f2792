#include "reprise/tokenizer/unigram_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

// Source: kUnkPenalty in unigram_model.cc of SentencePiece.
constexpr double kUnknownPenalty = 10;

PieceTrie trie_of(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Piece> pieces;
  pieces.reserve(vocabulary.size());
  for (int32_t id = 0; id < vocabulary.end_id(); ++id) {
    pieces.push_back({vocabulary.token(id).value_or(""), id});
  }
  return PieceTrie(std::move(pieces));
}

}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary,
                           UnigramOptions options,
                           std::vector<bool> is_control)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      is_control_(std::move(is_control)),
      trie_(trie_of(vocabulary_)),
      unknown_score_(*std::ranges::min_element(options_.scores) - kUnknownPenalty) {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
}

void UnigramModel::find_best_steps(std::string_view text,
                                   BpeModel::Allowed allowed,
                                   Scratch& scratch,
                                   WorkMeter& work) const {
  std::vector<Scratch::Step>& steps = scratch.steps_;
  steps.assign(text.size() + 1, {});
  for (size_t begin = 0; begin < text.size();) {
    const size_t character_bytes = utf8_length(text[begin]);
    const double score_before = steps[begin].score;
    const auto consider = [&](size_t num_bytes, int32_t id, double score) {
      Scratch::Step& step = steps[begin + num_bytes];
      if (step.begin >= 0 && score_before + score <= step.score) return;
      step = {score_before + score, static_cast<int32_t>(begin), id};
    };
    bool has_character = false;
    size_t longest = character_bytes;
    trie_.for_each_prefix(text.substr(begin), [&](size_t num_bytes, int32_t id) {
      longest = std::max(longest, num_bytes);
      if (is_refused(id, allowed)) return;
      consider(num_bytes, id, options_.scores[static_cast<size_t>(id)]);
      has_character = has_character || num_bytes == character_bytes;
    });
    if (!has_character) consider(character_bytes, options_.unknown_id, unknown_score_);
    work.count(longest);
    begin += character_bytes;
  }
}

void UnigramModel::append_unknown(std::string_view run,
                                  BpeModel::Allowed allowed,
                                  std::vector<int32_t>& reversed) const {
  if (const auto id = vocabulary_.find(run); id && !is_refused(*id, allowed)) {
    reversed.push_back(*id);
    return;
  }
  const auto has_byte = [&](char c) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    return id >= 0 && !is_refused(id, allowed);
  };
  if (!options_.byte_fallback || !std::ranges::all_of(run, has_byte)) {
    reversed.push_back(options_.unknown_id);
    return;
  }
  for (size_t i = run.size(); i-- > 0;) {
    reversed.push_back(byte_ids_[static_cast<uint8_t>(run[i])]);
  }
}

void UnigramModel::encode(std::string_view text,
                          BpeModel::Allowed allowed,
                          Scratch& scratch,
                          WorkMeter& work,
                          std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  find_best_steps(text, allowed, scratch, work);
  std::vector<int32_t>& reversed = scratch.reversed_;
  reversed.clear();
  size_t end = text.size();
  size_t end_of_unknown = end;  // end of the run of unknown characters that begins at `end`
  const auto finish_run = [&] {
    if (end_of_unknown > end) {
      append_unknown(text.substr(end, end_of_unknown - end), allowed, reversed);
    }
  };
  while (end > 0) {
    const Scratch::Step& step = scratch.steps_[end];
    if (step.id != options_.unknown_id) {
      finish_run();
      reversed.push_back(step.id);
      end_of_unknown = static_cast<size_t>(step.begin);
    }
    end = static_cast<size_t>(step.begin);
  }
  finish_run();
  ids.insert(ids.end(), reversed.rbegin(), reversed.rend());
}

}  // namespace reprise::tokenizer
