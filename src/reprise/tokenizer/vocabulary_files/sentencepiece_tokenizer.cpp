#include "reprise/tokenizer/vocabulary_files/sentencepiece_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/token_table.h"
#include "reprise/tokenizer/vocabulary_files/json_components.h"
#include "reprise/tokenizer/vocabulary_files/scored_merges.h"

namespace reprise::tokenizer {
namespace {

using namespace json_components;  // NOLINT(google-build-using-namespace): this file is about them
using Role = FolderSettings::Role;
using Type = SentencePiece::Type;

// For these classes Transformers numbers the pieces in other ways.
constexpr std::array<std::string_view, 21> kOtherNumberings = {
    "Barthez", "Bartpho",   "BertGeneration", "Camembert",   "Cpm",         "DebertaV2", "FNet",
    "GPTSw3",  "LayoutXLM", "M2M100",         "MBart",       "MBart50",     "Marian",    "Nllb",
    "PLBart",  "Pegasus",   "Reformer",       "SeamlessM4T", "Speech2Text", "XGLM",      "XLNet"};

struct Piece {
  std::string text;
  double score = 0;
  Type type = Type::normal;
};

// Escapes a text so that a pattern matches it literally.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-&#~ \t\n\r\v\f").find(c) != std::string_view::npos) {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

class SentencePieceBuilder {
 public:
  SentencePieceBuilder(const SentencePieceFile& model,
                       FolderSettings& settings,
                       std::string_view path)
      : model_(model), settings_(settings), path_(path) {}

  TokenizerFile build() {
    for (const std::string_view name : kOtherNumberings) {
      if (!settings_.is_class({name})) continue;
      throw FileError("E_TOKENIZER",
                      settings_.path_of("tokenizer_config.json"),
                      "/tokenizer_class",
                      fmt::format("'{}' numbers the pieces of a SentencePiece model in its own "
                                  "way, which is not supported without tokenizer.json",
                                  settings_.tokenizer_class));
    }
    if (settings_.is_class({"XLMRoberta"})) {
      build_xlm_roberta();
    } else if (settings_.is_class({"T5", "MT5", "UMT5"})) {
      build_t5();
    } else if (settings_.is_class({"Albert"})) {
      build_albert();
    } else {
      build_plain();
    }
    return std::move(file_);
  }

 private:
  [[nodiscard]] std::string name_of(uint32_t id) const {
    return std::string(settings_.text_of(id, model_.pieces[id].text));
  }

  void add_model_pieces() {
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      const SentencePiece& piece = model_.pieces[id];
      pieces_.push_back({name_of(static_cast<uint32_t>(id)), piece.score, piece.type});
    }
  }

  void add_vocabulary() {
    file_.vocabulary.reserve(pieces_.size(), pieces_.size() * 8);
    for (size_t id = 0; id < pieces_.size(); ++id) {
      add_token(pieces_[id].text, static_cast<uint32_t>(id), {path_, ""}, file_.vocabulary);
    }
  }

  void set_unigram(uint32_t unknown_id) {
    UnigramOptions& options = file_.unigram.emplace();
    for (const Piece& piece : pieces_) options.scores.push_back(piece.score);
    options.unknown_id = static_cast<int32_t>(unknown_id);
    options.byte_fallback = model_.byte_fallback;
  }

  void set_bpe() {
    file_.bpe.unknown_id = static_cast<int32_t>(model_.unknown_id);
    file_.bpe.fuse_unknown = true;
    file_.bpe.byte_fallback = model_.byte_fallback;
    std::vector<RankedToken> normal;
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (pieces_[id].type != Type::normal) continue;
      normal.push_back({.text = pieces_[id].text, .id = static_cast<uint32_t>(id)});
    }
    const auto score = [&](const RankedToken& token) { return pieces_[token.id].score; };
    std::ranges::stable_sort(normal, std::ranges::greater(), score);
    for (size_t i = 1; i < normal.size(); ++i) {
      const bool is_equal = score(normal[i]) == score(normal[i - 1]);
      normal[i].rank = normal[i - 1].rank + (is_equal ? 0 : 1);
    }
    file_.merges = merges_of(normal, path_);
  }

  // Control pieces and the unknown piece are special tokens. User-defined pieces are not: the
  // pre-tokenizer cuts them out. An exception: Gemma's marks of turns are user-defined but special.
  void set_added_tokens() {
    std::map<uint32_t, Json> tokens;
    for (size_t id = 0; id < pieces_.size(); ++id) {
      const Piece& piece = pieces_[id];
      const bool is_turn = piece.type == Type::user_defined &&
                           (piece.text == "<start_of_turn>" || piece.text == "<end_of_turn>");
      if (piece.type != Type::control && piece.type != Type::unknown && !is_turn) continue;
      tokens.emplace(static_cast<uint32_t>(id), added_token(piece.text, true));
    }
    file_.added_tokens = added_tokens_json(
        settings_, tokens, [&](std::string_view text) { return file_.vocabulary.find(text); });
  }

  [[nodiscard]] TemplatePiece token(std::string_view role) const {
    return token_piece(role, settings_, file_);
  }

  void build_plain() {
    // The trainer's ids have defaults, so they may name a piece of text.
    const auto text = [&](int32_t id) -> std::string_view {
      const bool has_piece = id >= 0 && static_cast<size_t>(id) < model_.pieces.size();
      if (!has_piece) return "";
      const SentencePiece& piece = model_.pieces[static_cast<size_t>(id)];
      const bool is_special = piece.type == Type::control || piece.type == Type::unknown;
      return is_special ? settings_.text_of(static_cast<uint32_t>(id), piece.text) : "";
    };
    settings_.set_defaults(
        std::array<Role, 4>{{{"bos_token", text(model_.bos_id)},
                             {"eos_token", text(model_.eos_id)},
                             {"pad_token", text(model_.pad_id)},
                             {"unk_token", text(static_cast<int32_t>(model_.unknown_id))}}});
    add_model_pieces();
    add_vocabulary();
    const std::string user_defined = user_defined_pattern();
    if (model_.model == SentencePieceFile::Model::bpe) {
      set_bpe();
      file_.bpe.ignore_merges = !user_defined.empty();
    } else {
      set_unigram(model_.unknown_id);
    }
    set_added_tokens();
    const bool is_legacy = settings_.flag("legacy").value_or(true);
    const bool adds_prefix =
        settings_.flag("add_prefix_space").value_or(true) && model_.adds_dummy_prefix;
    set_plain_normalizer(is_legacy, adds_prefix);
    const Json prefix =
        adds_prefix ? metaspace(is_legacy ? "always" : "first", /*split=*/false) : Json(nullptr);
    const Json cut = user_defined.empty() ? Json(nullptr) : isolate(user_defined);
    file_.pre_tokenizer = sequence("pretokenizers", {prefix, cut});
    set_plain_decoder(adds_prefix);
    set_bos_and_eos();
  }

  // SentencePiece removes only spaces, and no other white space.
  void set_plain_normalizer(bool is_legacy, bool adds_prefix) {
    const bool removes = model_.removes_extra_spaces;
    file_.normalizer = sequence(
        "normalizers",
        {precompiled(model_.character_map),
         removes ? replace_pattern(R"(\A +| +\z)", "") : Json(nullptr),
         removes ? replace_pattern(" {2,}", " ") : Json(nullptr),
         model_.escapes_spaces ? replace(" ", kSpaceMark) : Json(nullptr),
         // Metaspace adds no mark to a text that begins with a mark, but SentencePiece does.
         adds_prefix && is_legacy ? replace_pattern(fmt::format("\\A{}", kSpaceMark),
                                                    fmt::format("{}{}", kSpaceMark, kSpaceMark))
                                  : Json(nullptr)});
  }

  void set_plain_decoder(bool adds_prefix) {
    const bool fuses = adds_prefix || model_.byte_fallback;
    const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}};
    file_.decoder = sequence("decoders",
                             {replace(kSpaceMark, " "),
                              model_.byte_fallback ? Json{{"type", "ByteFallback"}} : Json(nullptr),
                              fuses ? Json{{"type", "Fuse"}} : Json(nullptr),
                              adds_prefix ? strip : Json(nullptr)});
  }

  // The longest piece first, as SentencePiece finds them.
  [[nodiscard]] std::string user_defined_pattern() const {
    std::vector<std::string_view> texts;
    for (const Piece& piece : pieces_) {
      if (piece.type == Type::user_defined) texts.push_back(piece.text);
    }
    std::ranges::stable_sort(texts, std::ranges::greater(), &std::string_view::size);
    std::string pattern;
    for (const std::string_view text : texts) {
      pattern += fmt::format("{}{}", pattern.empty() ? "" : "|", escaped(text));
    }
    return pattern;
  }

  void set_bos_and_eos() {
    // For these classes, old folders do not contain the flag that a text begins with BOS.
    const bool adds_bos_by_default =
        settings_.is_class({"Llama", "CodeLlama", "Gemma", "InternLM", "InternLM2", "InternLM3"});
    const auto piece = [&](std::string_view role, std::string_view flag, bool by_default) {
      const bool adds = settings_.flag(flag).value_or(by_default) && settings_.token(role);
      return adds ? token(role) : TemplatePiece{};
    };
    const TemplatePiece bos = piece("bos_token", "add_bos_token", adds_bos_by_default);
    const TemplatePiece eos = piece("eos_token", "add_eos_token", false);
    file_.post_processor = bos_eos_template(bos, eos);
  }

  // The words of XLM-RoBERTa, T5 and ALBERT: text is cut at white space, and each word gets a mark
  // before it.
  void set_words(Json normalizer) {
    const bool adds_prefix = settings_.flag("add_prefix_space").value_or(true);
    const Json mark = metaspace(adds_prefix ? "always" : "never", /*split=*/true);
    file_.normalizer = std::move(normalizer);
    file_.pre_tokenizer = sequence("pretokenizers", {Json{{"type", "WhitespaceSplit"}}, mark});
    file_.decoder = mark;
  }

  // fairseq's numbering: four tokens, then the pieces except the first three, then the mask.
  void build_xlm_roberta() {
    for (size_t id = 0; id < 3 && id < model_.pieces.size(); ++id) {
      const Type type = model_.pieces[id].type;
      if (type == Type::control || type == Type::unknown) continue;
      throw FileError("E_TOKENIZER",
                      path_,
                      fmt::format("piece {}", id),
                      "XLM-RoBERTa replaces this piece, but it is a piece of text");
    }
    settings_.set_defaults(std::array<Role, 7>{{{"bos_token", "<s>"},
                                                {"eos_token", "</s>"},
                                                {"sep_token", "</s>"},
                                                {"cls_token", "<s>"},
                                                {"unk_token", "<unk>"},
                                                {"pad_token", "<pad>"},
                                                {"mask_token", "<mask>"}}});
    const auto special = [&](std::string_view role, Type type = Type::control) {
      pieces_.push_back({*settings_.token(role), 0, type});
    };
    special("bos_token");
    special("pad_token");
    special("eos_token");
    special("unk_token", Type::unknown);
    for (size_t id = 3; id < model_.pieces.size(); ++id) {
      const SentencePiece& piece = model_.pieces[id];
      pieces_.push_back({std::string(piece.text), piece.score, piece.type});
    }
    special("mask_token");
    add_vocabulary();
    set_unigram(3);
    set_added_tokens();
    set_words(precompiled(model_.character_map));
    const TemplatePiece begin = token("bos_token");
    const TemplatePiece end = token("eos_token");
    file_.post_processor =
        template_processing({begin, text_piece("A", 0), end},
                            {begin, text_piece("A", 0), end, end, text_piece("B", 0), end});
  }

  // T5's sentinels come after the pieces, the last sentinel first.
  void build_t5() {
    settings_.set_defaults(std::array<Role, 3>{
        {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}}});
    add_model_pieces();
    constexpr size_t kMaxExtraIds = 10'000;
    const size_t num_extra_ids = settings_.integer("extra_ids", kMaxExtraIds).value_or(100);
    for (size_t i = num_extra_ids; i-- > 0;) {
      pieces_.push_back({fmt::format("<extra_id_{}>", i), 0, Type::control});
    }
    add_vocabulary();
    set_unigram(model_.unknown_id);
    set_added_tokens();
    set_words(precompiled(model_.character_map));
    const TemplatePiece end = token("eos_token");
    file_.post_processor = template_processing({text_piece("A", 0), end},
                                               {text_piece("A", 0), end, text_piece("B", 0), end});
  }

  void build_albert() {
    settings_.set_defaults(std::array<Role, 7>{{{"bos_token", "[CLS]"},
                                                {"eos_token", "[SEP]"},
                                                {"sep_token", "[SEP]"},
                                                {"cls_token", "[CLS]"},
                                                {"unk_token", "<unk>"},
                                                {"pad_token", "<pad>"},
                                                {"mask_token", "[MASK]"}}});
    add_model_pieces();
    add_vocabulary();
    set_unigram(model_.unknown_id);
    set_added_tokens();
    const bool keeps_accents = settings_.flag("keep_accents").value_or(false);
    const bool is_lower_case = settings_.flag("do_lower_case").value_or(true);
    set_words(sequence("normalizers",
                       {replace("``", "\""),
                        replace("''", "\""),
                        keeps_accents ? Json(nullptr) : Json{{"type", "NFKD"}},
                        keeps_accents ? Json(nullptr) : Json{{"type", "StripAccents"}},
                        is_lower_case ? Json{{"type", "Lowercase"}} : Json(nullptr),
                        precompiled(model_.character_map)}));
    file_.post_processor = bert_template(token("cls_token"), token("sep_token"));
  }

  const SentencePieceFile& model_;
  FolderSettings& settings_;
  std::string_view path_;
  std::vector<Piece> pieces_;  // by id
  TokenizerFile file_;
};

}  // namespace

TokenizerFile sentencepiece_tokenizer(const SentencePieceFile& model,
                                      FolderSettings& settings,
                                      std::string_view path) {
  return SentencePieceBuilder(model, settings, path).build();
}

}  // namespace reprise::tokenizer
