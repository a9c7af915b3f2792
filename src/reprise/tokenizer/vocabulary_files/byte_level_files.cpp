#include "reprise/tokenizer/vocabulary_files/byte_level_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "reprise/base/error.h"
#include "reprise/base/text/json_cursor.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/token_table.h"
#include "reprise/tokenizer/vocabulary_files/json_components.h"

namespace reprise::tokenizer {
namespace {

using namespace json_components;  // NOLINT(google-build-using-namespace): this file is about them

/// The special tokens at the beginning and the end of a prompt.
enum class Around { bos_and_eos_by_flags, roberta, bert, eos };

using Role = FolderSettings::Role;

struct Family {
  std::string_view name;     // of the class, without "Tokenizer"
  std::string_view pattern;  // empty: GPT-2's own
  std::span<const Role> roles;
  bool composes = false;  // Unicode NFC first
  Around around = Around::bos_and_eos_by_flags;
  bool adds_prefix_space = false;  // when tokenizer_config.json does not say
};

// The expressions and the tokens of the classes in Transformers.
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array<Role, 3> kGpt2Roles = {{{"bos_token", "<|endoftext|>"},
                                             {"eos_token", "<|endoftext|>"},
                                             {"unk_token", "<|endoftext|>"}}};
constexpr std::array<Role, 3> kQwenRoles = {{{"eos_token", "<|endoftext|>"},
                                             {"unk_token", "<|endoftext|>"},
                                             {"pad_token", "<|endoftext|>"}}};
constexpr std::array<Role, 7> kRobertaRoles = {{{"bos_token", "<s>"},
                                                {"eos_token", "</s>"},
                                                {"sep_token", "</s>"},
                                                {"cls_token", "<s>"},
                                                {"unk_token", "<unk>"},
                                                {"pad_token", "<pad>"},
                                                {"mask_token", "<mask>"}}};
constexpr std::array<Role, 7> kDebertaRoles = {{{"bos_token", "[CLS]"},
                                                {"eos_token", "[SEP]"},
                                                {"sep_token", "[SEP]"},
                                                {"cls_token", "[CLS]"},
                                                {"unk_token", "[UNK]"},
                                                {"pad_token", "[PAD]"},
                                                {"mask_token", "[MASK]"}}};
constexpr std::array<Role, 5> kBertRoles = {{{"unk_token", "[UNK]"},
                                             {"sep_token", "[SEP]"},
                                             {"pad_token", "[PAD]"},
                                             {"cls_token", "[CLS]"},
                                             {"mask_token", "[MASK]"}}};
constexpr Around kRoberta = Around::roberta;
constexpr std::array<Family, 12> kFamilies = {{
    {.name = "GPT2", .pattern = {}, .roles = kGpt2Roles},
    {.name = "CodeGen", .pattern = {}, .roles = kGpt2Roles},
    {.name = "GPTNeoX", .pattern = {}, .roles = kGpt2Roles, .composes = true},
    {.name = "Qwen2", .pattern = kQwen2Pattern, .roles = kQwenRoles, .composes = true},
    {.name = "Qwen3_5", .pattern = kQwen35Pattern, .roles = kQwenRoles, .composes = true},
    {.name = "Roberta", .pattern = {}, .roles = kRobertaRoles, .around = kRoberta},
    {.name = "Longformer", .pattern = {}, .roles = kRobertaRoles, .around = kRoberta},
    {.name = "LED", .pattern = {}, .roles = kRobertaRoles, .around = kRoberta},
    {.name = "Bart", .pattern = {}, .roles = kRobertaRoles, .around = kRoberta},
    {.name = "Mvp", .pattern = {}, .roles = kRobertaRoles, .around = kRoberta},
    {.name = "Blenderbot",
     .pattern = {},
     .roles = kRobertaRoles,
     .around = Around::eos,
     .adds_prefix_space = true},
    {.name = "Deberta", .pattern = {}, .roles = kDebertaRoles, .around = Around::bert},
}};

const Family& find_family(const FolderSettings& settings) {
  std::string supported;
  for (const Family& family : kFamilies) {
    if (settings.is_class({family.name})) return family;
    supported += fmt::format("{}{}Tokenizer", supported.empty() ? "" : ", ", family.name);
  }
  throw FileError(
      "E_TOKENIZER",
      settings.path_of("tokenizer_config.json"),
      "/tokenizer_class",
      settings.tokenizer_class.empty()
          ? fmt::format("is required beside vocab.json, because it says how text is cut; "
                        "supported: {}",
                        supported)
          : fmt::format("'{}' is not supported with vocab.json and merges.txt; supported: {}",
                        settings.tokenizer_class,
                        supported));
}

void read_vocabulary(std::string_view text, std::string_view path, Vocabulary& vocabulary) {
  JsonCursor cursor(text, path, {"E_TOKENIZER"});
  vocabulary.reserve(text.size() / 16, text.size() / 2);
  cursor.for_each_member([&](std::string_view token) {
    const auto id = static_cast<uint32_t>(cursor.read_unsigned(Vocabulary::kMaxId - 1));
    add_token(token, id, {path, ""}, vocabulary);
  });
  cursor.expect_end();
  if (vocabulary.size() == 0) throw FileError("E_TOKENIZER", path, "", "the vocabulary is empty");
}

/// Calls `visit(line, index)` for each line, without its end.
template <typename Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  for (size_t index = 0; !text.empty(); ++index) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, index);
  }
}

void read_merges(std::string_view text, std::string_view path, TokenizerFile& file) {
  file.merges.reserve(std::min(text.size() / 6, file.vocabulary.size()));
  uint32_t rank = 0;
  for_each_line(text, [&](std::string_view line, size_t index) {
    if (line.empty() || line.starts_with("#version")) return;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw FileError("E_TOKENIZER",
                      path,
                      fmt::format("line {}", index + 1),
                      "expected two tokens with one space between them");
    }
    add_merge(line.substr(0, space), line.substr(space + 1), rank++, {path, ""}, file);
  });
}

void set_added_tokens(const FolderSettings& settings, TokenizerFile& file) {
  file.added_tokens = added_tokens_json(
      settings, {}, [&](std::string_view text) { return file.vocabulary.find(text); });
}

Json roberta_json(const TemplatePiece& begin, const TemplatePiece& end, bool adds_prefix_space) {
  return {{"type", "RobertaProcessing"},
          {"sep", Json::array({end.token, end.id})},
          {"cls", Json::array({begin.token, begin.id})},
          {"trim_offsets", true},
          {"add_prefix_space", adds_prefix_space}};
}

Json around_text(const Family& family,
                 const FolderSettings& settings,
                 const TokenizerFile& file,
                 bool adds_prefix_space) {
  const auto token = [&](std::string_view role) { return token_piece(role, settings, file); };
  switch (family.around) {
    case Around::roberta:
      return roberta_json(token("cls_token"), token("sep_token"), adds_prefix_space);
    case Around::bert:
      return bert_template(token("cls_token"), token("sep_token"));
    case Around::eos:
      return bos_eos_template({}, token("eos_token"));
    case Around::bos_and_eos_by_flags:
      break;
  }
  const auto piece = [&](std::string_view role, std::string_view flag) {
    return settings.flag(flag).value_or(false) ? token(role) : TemplatePiece{};
  };
  return bos_eos_template(piece("bos_token", "add_bos_token"), piece("eos_token", "add_eos_token"));
}

}  // namespace

TokenizerFile byte_level_tokenizer(FolderSettings& settings) {
  const Family& family = find_family(settings);
  settings.set_defaults(family.roles);
  TokenizerFile file;
  const std::string vocabulary_path = settings.path_of("vocab.json");
  read_vocabulary(read_text_file(vocabulary_path), vocabulary_path, file.vocabulary);
  const std::string merges_path = settings.path_of("merges.txt");
  read_merges(read_text_file(merges_path), merges_path, file);
  set_added_tokens(settings, file);
  const bool adds_prefix_space =
      settings.flag("add_prefix_space").value_or(family.adds_prefix_space);
  if (family.composes) file.normalizer = Json{{"type", "NFC"}};
  file.pre_tokenizer =
      sequence("pretokenizers",
               {family.pattern.empty() ? Json(nullptr) : isolate(family.pattern),
                byte_level(adds_prefix_space, /*use_regex=*/family.pattern.empty())});
  file.post_processor = around_text(family, settings, file, adds_prefix_space);
  file.decoder = byte_level(true, true);
  return file;
}

TokenizerFile word_piece_tokenizer(FolderSettings& settings) {
  settings.set_defaults(kBertRoles);
  TokenizerFile file;
  const std::string path = settings.path_of("vocab.txt");
  const std::string text = read_text_file(path);
  if (!is_valid_utf8(text)) throw FileError("E_TOKENIZER", path, "", "is not UTF-8");
  for_each_line(text, [&](std::string_view line, size_t index) {
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    add_token(line, static_cast<uint32_t>(index), {path, ""}, file.vocabulary);
  });
  set_added_tokens(settings, file);
  WordPieceOptions& options = file.word_piece.emplace();
  options.unknown_id = static_cast<int32_t>(token_piece("unk_token", settings, file).id);
  const bool is_lower_case = settings.flag("do_lower_case").value_or(true);
  file.normalizer = {
      {"type", "BertNormalizer"},
      {"clean_text", true},
      {"handle_chinese_chars", settings.flag("tokenize_chinese_chars").value_or(true)},
      {"strip_accents", settings.flag("strip_accents").value_or(is_lower_case)},
      {"lowercase", is_lower_case}};
  file.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  file.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file.post_processor = bert_template(token_piece("cls_token", settings, file),
                                      token_piece("sep_token", settings, file));
  return file;
}

}  // namespace reprise::tokenizer
