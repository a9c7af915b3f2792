#include "reprise/weights/gguf/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/weights/gguf/pre_tokenizers.h"
#include "reprise/weights/gguf/vocabulary.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kSpaceMark = "\u2581";

std::string json_text(std::string_view text) { return Json(std::string(text)).dump(); }

// The vocabulary as JSON. Unused tokens are left out: they only pad the vocabulary, and no text is
// encoded to them.
std::string vocabulary_json(const Vocabulary& vocabulary) {
  std::string json = "{";
  for (size_t id = 0; id < vocabulary.tokens->size(); ++id) {
    if (vocabulary.types[id] == TokenType::unused) continue;
    json +=
        fmt::format("{}{}:{}", json.size() > 1 ? "," : "", json_text((*vocabulary.tokens)[id]), id);
  }
  return json + "}";
}

std::string listed_merges_json(const Metadata& metadata) {
  const std::vector<std::string>* merges = metadata.strings(kMergesKey);
  if (merges == nullptr) fail_tokenizer(metadata, kMergesKey, "is required: the list of merges");
  std::string json = "[";
  for (const std::string& merge : *merges) {
    if (!is_valid_utf8(merge)) fail_tokenizer(metadata, kMergesKey, "a merge is not UTF-8");
    json += fmt::format("{}{}", json.size() > 1 ? "," : "", json_text(merge));
  }
  return json + "]";
}

std::string scored_merges_json(const Vocabulary& vocabulary) {
  std::string json = "[";
  for (const Merge& merge : merges_by_score(vocabulary)) {
    json += fmt::format(
        "{}[{},{}]", json.size() > 1 ? "," : "", json_text(merge.left), json_text(merge.right));
  }
  return json + "]";
}

Json added_tokens_json(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens->size(); ++id) {
    const TokenType type = vocabulary.types[id];
    const bool is_special = type == TokenType::control || type == TokenType::unknown;
    if (!is_special && type != TokenType::user_defined) continue;
    added.push_back({{"id", id},
                     {"content", (*vocabulary.tokens)[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
  }
  return added;
}

Json byte_level_json(bool uses_gpt2_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", uses_gpt2_pattern}};
}

Json split_json(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::string(pattern)}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json pre_tokenizer_json(const PreTokenizer& pre) {
  Json steps = Json::array();
  if (pre.splits_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (pre.splits_punctuation) {
    steps.push_back({{"type", "Punctuation"}, {"behavior", "Contiguous"}});
  }
  for (const std::string_view pattern : pre.patterns) {
    if (!pattern.empty()) steps.push_back(split_json(pattern));
  }
  steps.push_back(byte_level_json(pre.patterns.front().empty()));
  if (pre.groups_digits) {
    steps.push_back({{"type", "Digits"}, {"individual_digits", false}});
    steps.push_back(split_json("[0-9][0-9][0-9]"));
  }
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

// The post-processor: the tokens at the beginning and the end of a prompt.
Json post_processor_json(const Metadata& metadata, const Vocabulary& vocabulary, bool adds_bos) {
  Json single = Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}});
  Json special_tokens = Json::object();
  const auto add = [&](std::string_view end, bool by_default) {
    const std::string key = fmt::format("tokenizer.ggml.add_{}_token", end);
    const std::optional<bool> says = metadata.boolean(key);
    if (!says.value_or(by_default)) return;
    const std::string id_key = fmt::format("tokenizer.ggml.{}_token_id", end);
    const auto id = token_id(metadata, id_key, vocabulary);
    if (!id) {
      if (!says) return;
      fail_tokenizer(metadata, id_key, fmt::format("is required, because {} is true", key));
    }
    const std::string& text = (*vocabulary.tokens)[static_cast<size_t>(*id)];
    special_tokens[text] = {
        {"id", text}, {"ids", Json::array({*id})}, {"tokens", Json::array({text})}};
    const Json piece = {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
    end == "bos" ? static_cast<void>(single.insert(single.begin(), piece))
                 : single.push_back(piece);
  };
  add("bos", adds_bos);
  add("eos", false);
  if (special_tokens.empty()) return nullptr;
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", Json::array()},
          {"special_tokens", special_tokens}};
}

/// The parts of a tokenizer.json. The tables are text, because they are large.
struct Parts {
  Json added_tokens;
  Json normalizer;
  Json pre_tokenizer;
  Json post_processor;
  Json decoder;
  Json model;  // without its tables
  std::string vocabulary;
  std::string merges;
};

std::string join(const Parts& parts) {
  std::string model = parts.model.dump();
  model.pop_back();
  return fmt::format(
      R"({{"version":"1.0","added_tokens":{},"normalizer":{},"pre_tokenizer":{},"post_processor":{},"decoder":{},"model":{},"vocab":{},"merges":{}}}}})",
      parts.added_tokens.dump(),
      parts.normalizer.dump(),
      parts.pre_tokenizer.dump(),
      parts.post_processor.dump(),
      parts.decoder.dump(),
      model,
      parts.vocabulary,
      parts.merges);
}

Parts byte_level_parts(const Metadata& metadata, const Vocabulary& vocabulary) {
  const PreTokenizer& pre = find_pre_tokenizer(metadata);
  return {.added_tokens = added_tokens_json(vocabulary),
          .normalizer = pre.composes ? Json{{"type", "NFC"}} : Json(nullptr),
          .pre_tokenizer = pre_tokenizer_json(pre),
          .post_processor = post_processor_json(metadata, vocabulary, pre.adds_bos),
          .decoder = byte_level_json(true),
          .model = {{"type", "BPE"}, {"ignore_merges", pre.ignores_merges}},
          .vocabulary = vocabulary_json(vocabulary),
          .merges = listed_merges_json(metadata)};
}

Parts sentencepiece_parts(const Metadata& metadata, const Vocabulary& vocabulary) {
  const bool prefixes = metadata.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  const std::string mark(kSpaceMark);
  Json normalizers = Json::array();
  Json decoders =
      Json::array({{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (prefixes) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", mark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}});
  Json model = {{"type", "BPE"}, {"fuse_unk", true}, {"byte_fallback", true}};
  const auto unknown = token_id(metadata, "tokenizer.ggml.unknown_token_id", vocabulary);
  model["unk_token"] = (*vocabulary.tokens)[static_cast<size_t>(unknown.value_or(0))];
  return {.added_tokens = added_tokens_json(vocabulary),
          .normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}},
          .pre_tokenizer = nullptr,
          .post_processor = post_processor_json(metadata, vocabulary, true),
          .decoder = {{"type", "Sequence"}, {"decoders", decoders}},
          .model = model,
          .vocabulary = vocabulary_json(vocabulary),
          .merges = scored_merges_json(vocabulary)};
}

// The texts of a WordPiece file in BERT's form. In the file, a piece that begins a word has the
// mark of a space before it, and all other pieces lack their "##". Control tokens are unchanged.
std::vector<std::string> word_pieces(const Vocabulary& vocabulary) {
  std::vector<std::string> texts = *vocabulary.tokens;
  for (size_t id = 0; id < texts.size(); ++id) {
    std::string& text = texts[id];
    // Older converters recognise control tokens by their brackets.
    const bool has_brackets = text.starts_with('[') && text.ends_with(']');
    if (text.starts_with(kSpaceMark)) {
      text.erase(0, kSpaceMark.size());
    } else if (vocabulary.types[id] == TokenType::normal && !has_brackets) {
      text.insert(0, "##");
    }
  }
  return texts;
}

// The id under one of these keys, or else the id of the token with this text.
int64_t required_token(const Metadata& metadata,
                       const Vocabulary& vocabulary,
                       std::initializer_list<std::string_view> keys,
                       std::string_view text) {
  for (const std::string_view key : keys) {
    if (const auto id = token_id(metadata, key, vocabulary)) return *id;
  }
  const auto found = std::ranges::find(*vocabulary.tokens, text);
  if (found == vocabulary.tokens->end()) {
    fail_tokenizer(metadata, *keys.begin(), fmt::format("is required: no token is {}", text));
  }
  return found - vocabulary.tokens->begin();
}

// Whether texts are changed to lower case: by the file, or by default if no piece has a capital
// letter.
bool lowers_case(const Metadata& metadata, const Vocabulary& vocabulary) {
  const auto says = metadata.boolean("tokenizer.ggml.normalizer.lowercase");
  if (says) return *says;
  for (size_t id = 0; id < vocabulary.tokens->size(); ++id) {
    const std::string& text = (*vocabulary.tokens)[id];
    const bool is_bracketed = text.find('[') != std::string::npos;  // "[unused0]"
    if (vocabulary.types[id] != TokenType::normal || is_bracketed) continue;
    if (std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; })) return false;
  }
  return true;
}

Json word_piece_post_processor(const Metadata& metadata, const Vocabulary& vocabulary) {
  const Json::array_t ends = {
      required_token(metadata,
                     vocabulary,
                     {"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"},
                     "[CLS]"),
      required_token(metadata,
                     vocabulary,
                     {"tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id"},
                     "[SEP]")};
  Json special_tokens = Json::object();
  Json::array_t pieces;
  for (const Json& id : ends) {
    const std::string& text = (*vocabulary.tokens)[id.get<size_t>()];
    special_tokens[text] = {
        {"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
    pieces.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
  }
  const Json first = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  const Json last = {{"SpecialToken", {{"id", pieces[1]["SpecialToken"]["id"]}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({pieces[0], first, pieces[1]})},
          {"pair", Json::array({pieces[0], first, pieces[1], second, last})},
          {"special_tokens", special_tokens}};
}

Parts word_piece_parts(const Metadata& metadata, Vocabulary vocabulary) {
  const std::vector<std::string> texts = word_pieces(vocabulary);
  vocabulary.tokens = &texts;
  Vocabulary of_model = vocabulary;
  // An added token matches only as a whole. As a piece, "word" would also match inside "words".
  std::ranges::replace(of_model.types, TokenType::user_defined, TokenType::unused);
  const bool lowers = lowers_case(metadata, vocabulary);
  const auto strips = metadata.boolean("tokenizer.ggml.normalizer.strip_accents");
  const int64_t unknown =
      required_token(metadata, vocabulary, {"tokenizer.ggml.unknown_token_id"}, "[UNK]");
  return {.added_tokens = added_tokens_json(vocabulary),
          .normalizer = {{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", true},
                         {"strip_accents", strips ? Json(*strips) : Json(nullptr)},
                         {"lowercase", lowers}},
          .pre_tokenizer = {{"type", "BertPreTokenizer"}},
          .post_processor = word_piece_post_processor(metadata, vocabulary),
          .decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
          .model = {{"type", "WordPiece"},
                    {"unk_token", texts[static_cast<size_t>(unknown)]},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100}},
          .vocabulary = vocabulary_json(of_model),
          .merges = "[]"};
}

void add_chat_templates(const Metadata& metadata, Json& config) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  Json templates = Json::array();
  const auto add = [&](const std::string& name, const std::string& key) {
    const std::string* source = metadata.string(key);
    if (source == nullptr) return;
    if (!is_valid_utf8(*source) || !is_valid_utf8(name)) {
      fail_tokenizer(metadata, key, "is not UTF-8");
    }
    templates.push_back({{"name", name}, {"template", *source}});
  };
  add("default", std::string(kKey));
  if (const std::vector<std::string>* names = metadata.strings("tokenizer.chat_templates")) {
    for (const std::string& name : *names) add(name, fmt::format("{}.{}", kKey, name));
  }
  if (!templates.empty()) config["chat_template"] = templates;
}

}  // namespace

std::string tokenizer_json(const Metadata& metadata) {
  const std::string* model = metadata.string(kModelKey);
  if (model == nullptr) {
    fail_tokenizer(metadata, kModelKey, "is required; supported: gpt2, llama, bert");
  }
  if (*model != "gpt2" && *model != "llama" && *model != "bert") {
    fail_tokenizer(metadata,
                   kModelKey,
                   fmt::format("'{}' is not supported; supported: gpt2 (byte-level BPE), llama "
                               "(SentencePiece BPE), bert (WordPiece)",
                               visible(*model)));
  }
  const Vocabulary vocabulary = Vocabulary::read(metadata);
  if (*model == "bert") return join(word_piece_parts(metadata, vocabulary));
  return join(*model == "gpt2" ? byte_level_parts(metadata, vocabulary)
                               : sentencepiece_parts(metadata, vocabulary));
}

std::string tokenizer_config_json(const Metadata& metadata) {
  Json config = Json::object();
  const Vocabulary vocabulary = Vocabulary::read(metadata);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTokens = {{
      {"tokenizer.ggml.bos_token_id", "bos_token"},
      {"tokenizer.ggml.eos_token_id", "eos_token"},
      {"tokenizer.ggml.padding_token_id", "pad_token"},
      {"tokenizer.ggml.unknown_token_id", "unk_token"},
  }};
  for (const auto& [key, member] : kTokens) {
    if (const auto id = token_id(metadata, key, vocabulary)) {
      config[std::string(member)] = (*vocabulary.tokens)[static_cast<size_t>(*id)];
    }
  }
  add_chat_templates(metadata, config);
  return config.dump();
}

std::vector<std::string> tokenizer_warnings(const Metadata& metadata) {
  const std::string* model = metadata.string(kModelKey);
  const std::vector<std::string>* tokens = metadata.strings("tokenizer.ggml.tokens");
  std::vector<std::string> warnings;
  if (model == nullptr || tokens == nullptr) return warnings;
  constexpr std::string_view kAdvice =
      "texts may become other tokens than in the model's training; --tokenizer DIR uses the "
      "tokenizer of a model folder";
  if (*model == "gpt2" && has_default_pre_tokenizer(metadata)) {
    warnings.push_back(
        fmt::format("{}: tokenizer.ggml.pre does not say how the model cuts text: {}",
                    metadata.path(),
                    kAdvice));
  }
  if (*model == "llama" && metadata.array("tokenizer.ggml.scores") == nullptr) {
    warnings.push_back(
        fmt::format("{}: tokenizer.ggml.scores is missing, so all tokens have the score 0: {}",
                    metadata.path(),
                    kAdvice));
  }
  for (const std::string_view name : {"bos", "eos", "eot", "eom", "padding", "unknown"}) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    const auto id = metadata.integer(key, 0, std::numeric_limits<uint32_t>::max());
    if (!id || std::cmp_less(*id, tokens->size())) continue;
    warnings.push_back(fmt::format("{}: {} is {}, which is not used: there are {} tokens",
                                   metadata.path(),
                                   key,
                                   *id,
                                   tokens->size()));
  }
  return warnings;
}

}  // namespace reprise::weights::gguf
