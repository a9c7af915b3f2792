#include "reprise/tokenizer/vocabulary_files/json_components.h"

#include <fmt/format.h>

#include <optional>

#include "reprise/base/error.h"
#include "reprise/tokenizer/base64.h"

namespace reprise::tokenizer::json_components {
namespace {

Json replace_by(Json pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", std::string(content)}};
}

Json pieces_json(const std::vector<TemplatePiece>& pieces) {
  Json list = Json::array();
  for (const TemplatePiece& piece : pieces) {
    const bool is_text = piece.token.empty();
    list.push_back({{is_text ? "Sequence" : "SpecialToken",
                     {{"id", is_text ? piece.text : piece.token}, {"type_id", piece.type}}}});
  }
  return list;
}

TemplatePiece with_type(TemplatePiece piece, uint32_t type) {
  piece.type = type;
  return piece;
}

}  // namespace

Json sequence(std::string_view member, std::initializer_list<Json> steps) {
  Json list = Json::array();
  for (const Json& step : steps) {
    if (!step.is_null()) list.push_back(step);
  }
  if (list.empty()) return nullptr;
  return {{"type", "Sequence"}, {std::string(member), std::move(list)}};
}

Json replace(std::string_view text, std::string_view content) {
  return replace_by({{"String", std::string(text)}}, content);
}

Json replace_pattern(std::string_view pattern, std::string_view content) {
  return replace_by({{"Regex", std::string(pattern)}}, content);
}

Json isolate(std::string_view pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", std::string(pattern)}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json metaspace(std::string_view prepend_scheme, bool split) {
  return {{"type", "Metaspace"},
          {"replacement", std::string(kSpaceMark)},
          {"prepend_scheme", std::string(prepend_scheme)},
          {"split", split}};
}

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json precompiled(std::string_view character_map) {
  if (character_map.empty()) return nullptr;
  return {{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(character_map)}};
}

TemplatePiece text_piece(std::string_view name, uint32_t type) {
  return {.token = {}, .text = std::string(name), .type = type};
}

Json template_processing(const std::vector<TemplatePiece>& single,
                         const std::vector<TemplatePiece>& pair) {
  Json special_tokens = Json::object();
  for (const std::vector<TemplatePiece>* pieces : {&single, &pair}) {
    for (const TemplatePiece& piece : *pieces) {
      if (piece.token.empty()) continue;
      special_tokens[piece.token] = {{"id", piece.token},
                                     {"ids", Json::array({piece.id})},
                                     {"tokens", Json::array({piece.token})}};
    }
  }
  return {{"type", "TemplateProcessing"},
          {"single", pieces_json(single)},
          {"pair", pieces_json(pair)},
          {"special_tokens", std::move(special_tokens)}};
}

TemplatePiece token_piece(std::string_view role,
                          const FolderSettings& settings,
                          const TokenizerFile& file) {
  const auto fail = [&](const std::string& message) {
    throw FileError("E_TOKENIZER",
                    settings.path_of("tokenizer_config.json"),
                    fmt::format("/{}", role),
                    message);
  };
  const std::optional<std::string> text = settings.token(role);
  if (!text || text->empty()) fail("is required: it begins or ends a text");
  std::optional<int32_t> id = file.vocabulary.find(*text);
  for (const Json& token : file.added_tokens) {
    if (!id && token["content"] == *text) id = token["id"].get<int32_t>();
  }
  if (!id) fail(fmt::format("'{}' begins or ends a text, but no file gives it an id", *text));
  return {.token = *text, .text = {}, .id = static_cast<uint32_t>(*id)};
}

Json bos_eos_template(const TemplatePiece& bos, const TemplatePiece& eos) {
  std::vector<TemplatePiece> pair;
  const auto add = [&](uint32_t type) {
    if (!bos.token.empty()) pair.push_back(with_type(bos, type));
    pair.push_back(text_piece(type == 0 ? "A" : "B", type));
    if (!eos.token.empty()) pair.push_back(with_type(eos, type));
  };
  add(0);
  const std::vector<TemplatePiece> single = pair;
  add(1);
  return template_processing(single, pair);
}

Json bert_template(const TemplatePiece& begin, const TemplatePiece& end) {
  const std::vector<TemplatePiece> single = {begin, text_piece("A", 0), end};
  std::vector<TemplatePiece> pair = single;
  pair.push_back(text_piece("B", 1));
  pair.push_back(with_type(end, 1));
  return template_processing(single, pair);
}

}  // namespace reprise::tokenizer::json_components
