#include "reprise/tokenizer/vocabulary_files/sentencepiece_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/tokenizer/vocabulary_files/sentencepiece_tokenizer.h"

namespace reprise::tokenizer {
namespace {

using Type = SentencePiece::Type;
using PieceIds = std::vector<int32_t>;

std::string varint(uint64_t value) {
  std::string bytes;
  while (value >= 0x80) {
    bytes.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
    value >>= 7U;
  }
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string tag(uint32_t number, uint32_t wire) { return varint((number << 3U) | wire); }
std::string number_field(uint32_t number, uint64_t value) { return tag(number, 0) + varint(value); }
std::string text_field(uint32_t number, std::string_view text) {
  return tag(number, 2) + varint(text.size()) + std::string(text);
}
std::string real_field(uint32_t number, float value) {
  std::string bytes = tag(number, 5);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (uint32_t shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<char>((bits >> shift) & 0xFFU));
  }
  return bytes;
}
std::string piece(std::string_view text, float score = 0, Type type = Type::normal) {
  return text_field(
      1, text_field(1, text) + real_field(2, score) + number_field(3, static_cast<uint64_t>(type)));
}
std::string trainer(const std::string& fields) { return text_field(2, fields); }
std::string normalizer(const std::string& fields) { return text_field(3, fields); }

const std::string kUnknown = piece("<unk>", 0, Type::unknown);
const std::string kBpe = trainer(number_field(3, 2));
// A normalizer that leaves text unchanged: no mark at its start, and no space removed.
const std::string kAsItIs = normalizer(number_field(3, 0) + number_field(4, 0));

std::string model_refusal(std::string_view bytes) {
  try {
    static_cast<void>(SentencePieceFile::read(bytes, "m"));
  } catch (const FileError& error) {
    return error.what();
  }
  return "loads";
}
void expect_model_refusal(const std::string& bytes, std::string_view sentence) {
  EXPECT_NE(model_refusal(bytes).find(sentence), std::string::npos) << model_refusal(bytes);
}

Tokenizer tokenizer_of(const std::string& bytes) {
  FolderSettings settings;
  return Tokenizer::from_file(
      sentencepiece_tokenizer(SentencePieceFile::read(bytes, "m"), settings, "m"), "m", {});
}

TEST(SentencePieceFile, gives_the_pieces_and_the_defaults_of_the_format) {
  const std::string bytes = kUnknown + piece("a", -1.5F) + text_field(1, text_field(1, "b"));
  const SentencePieceFile file = SentencePieceFile::read(bytes, "m");
  ASSERT_EQ(file.pieces.size(), 3u);
  EXPECT_EQ(file.pieces[1].text, "a");
  EXPECT_EQ(file.pieces[1].score, -1.5F);
  EXPECT_EQ(file.pieces[2].type, Type::normal);
  EXPECT_EQ(file.model, SentencePieceFile::Model::unigram);
  EXPECT_TRUE(file.adds_dummy_prefix && file.removes_extra_spaces && file.escapes_spaces);
  EXPECT_EQ(file.pad_id, -1);
}

TEST(SentencePieceFile, reads_negative_ids_and_skips_fields_that_it_does_not_know) {
  const std::string bytes = kUnknown +
                            trainer(number_field(41, ~uint64_t{0}) + text_field(7, "x") +
                                    tag(9, 1) + std::string(8, '\0')) +
                            text_field(200, "extension");
  EXPECT_EQ(SentencePieceFile::read(bytes, "m").bos_id, -1);
}

TEST(SentencePieceFile, refuses_a_message_that_is_cut_anywhere_or_loads_its_whole_fields) {
  const std::string bytes = kUnknown + piece("ab", -2) + kBpe + kAsItIs;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string what = model_refusal(std::string_view(bytes).substr(0, size));
    const bool is_whole = size == kUnknown.size() || size == kUnknown.size() + piece("ab").size() ||
                          size == bytes.size() - kAsItIs.size();
    EXPECT_EQ(what == "loads", is_whole) << size << " " << what;
  }
}

TEST(SentencePieceFile, refuses_bytes_that_are_no_message) {
  expect_model_refusal("", "the file has no pieces");
  expect_model_refusal(std::string(1, '\x00'), "no field has the number 0");
  expect_model_refusal(std::string(11, '\xFF'), "more than ten bytes");
  expect_model_refusal(tag(1, 3), "has the wire type 3");
  expect_model_refusal(tag(1, 2) + varint(~uint64_t{0}), "has 18446744073709551615 bytes");
  expect_model_refusal(number_field(1, 5), "field 1 has the wire type 0, expected 2");
  expect_model_refusal("{\"model\": {}}", "E_T");
}

TEST(SentencePieceFile, refuses_pieces_that_no_model_has) {
  const auto bad = [](const std::string& fields) { return kUnknown + text_field(1, fields); };
  expect_model_refusal(bad(""), "piece 1: has no text");
  expect_model_refusal(bad(text_field(1, "\xFF")), "piece 1: is not UTF-8");
  expect_model_refusal(bad(text_field(1, std::string(1025, 'a'))), "piece 1: has 1025 bytes");
  expect_model_refusal(bad(text_field(1, "a") + number_field(3, 7)), "piece 1: has the type 7");
  const float infinity = std::numeric_limits<float>::infinity();
  expect_model_refusal(bad(text_field(1, "a") + real_field(2, infinity)), "not a finite number");
  expect_model_refusal(bad(text_field(1, "a") + real_field(2, infinity - infinity)),
                       "not a finite number");
  expect_model_refusal(kUnknown + kUnknown, "piece 1: is unknown, and so is piece 0");
  expect_model_refusal(piece("a"), "no piece has the type 2");
}

TEST(SentencePieceFile, refuses_models_that_are_not_supported_by_the_name_of_the_field) {
  expect_model_refusal(kUnknown + trainer(number_field(3, 3)), "3 (words) is not supported");
  expect_model_refusal(kUnknown + trainer(number_field(3, 4)), "4 (characters) is not supported");
  expect_model_refusal(kUnknown + trainer(number_field(24, 1)), "treat_whitespace_as_suffix");
  expect_model_refusal(kUnknown + text_field(5, text_field(2, "map")), "denormalizer_spec");
}

TEST(SentencePieceFile, limits_the_number_of_pieces_before_it_stores_them) {
  std::string bytes = kUnknown;
  for (size_t i = 0; i < SentencePieceFile::kMaxPieces; ++i) bytes += "\x0A\x03\x0A\x01z";
  expect_model_refusal(bytes, "more than 1048576 pieces");
}

TEST(SentencePieceTokenizer, refuses_repeated_pieces) {
  EXPECT_THROW(static_cast<void>(tokenizer_of(kUnknown + piece("a") + piece("a"))), FileError);
}

TEST(SentencePieceTokenizer, limits_the_merges_of_a_hostile_vocabulary) {
  // All strings of two letters up to this length. Each of them can be split into two such strings
  // at any place.
  std::string bytes = kUnknown + kBpe;
  for (uint32_t length = 1; length <= 18; ++length) {
    for (uint32_t bits = 0; bits < 1U << length; ++bits) {
      std::string text;
      for (uint32_t i = 0; i < length; ++i) text.push_back(((bits >> i) & 1U) != 0 ? 'a' : 'b');
      bytes += piece(text);
    }
  }
  try {
    static_cast<void>(tokenizer_of(bytes));
    FAIL() << "loads";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("merge in more than"), std::string::npos);
  }
}

TEST(SentencePieceTokenizer, takes_no_piece_of_text_for_the_begin_because_of_its_id) {
  const Tokenizer tokenizer = tokenizer_of(kUnknown + kBpe + kAsItIs + piece("a", -9));
  EXPECT_FALSE(tokenizer.is_special(1));
}

TEST(SentencePieceTokenizer, merges_by_score_and_not_by_id) {
  const Tokenizer tokenizer = tokenizer_of(kUnknown + kBpe + kAsItIs + piece("a", -9) +
                                           piece("b", -9) + piece("ba", -2) + piece("ab", -1));
  EXPECT_EQ(tokenizer.encode("aba"), (PieceIds{4, 1}));
}

TEST(SentencePieceTokenizer, merges_pieces_of_equal_scores_from_the_left) {
  const Tokenizer tokenizer =
      tokenizer_of(kUnknown + kBpe + kAsItIs + piece("a", -9) + piece("b", -9) + piece("ab", -1) +
                   piece("ba", -1) + piece("aba", -2));
  EXPECT_EQ(tokenizer.encode("aba"), (PieceIds{5}));
  EXPECT_EQ(tokenizer.encode("bab"), (PieceIds{4, 2}));
}

TEST(SentencePieceTokenizer, never_merges_into_user_defined_pieces_or_out_of_them) {
  const Tokenizer tokenizer = tokenizer_of(
      kUnknown + kBpe + kAsItIs + piece("a", -9) + piece("b", -9) + piece("ab", -1) +
      piece("aa", 0, Type::user_defined) + piece("<s>", 0, Type::control) + piece("aab", -1));
  EXPECT_EQ(tokenizer.encode("aab"), (PieceIds{4, 2}));
  EXPECT_EQ(tokenizer.encode("aaab"), (PieceIds{4, 3}));
  EXPECT_EQ(tokenizer.encode("a<s>b"), (PieceIds{1, 5, 2}));
  EXPECT_EQ(tokenizer.encode("<s>", {.parse_special = false}), (PieceIds{0}));
}

TEST(SentencePieceTokenizer, finds_user_defined_pieces_that_are_signs_of_patterns) {
  const Tokenizer tokenizer =
      tokenizer_of(kUnknown + kBpe + kAsItIs + piece("a", -9) + piece(".*", 0, Type::user_defined) +
                   piece("\\E(", 0, Type::user_defined) + piece("\n#", 0, Type::user_defined) +
                   piece("[^]", 0, Type::user_defined));
  EXPECT_EQ(tokenizer.encode("a.*a\\E(a\n#a[^]a"), (PieceIds{1, 2, 1, 3, 1, 4, 1, 5, 1}));
}

}  // namespace
}  // namespace reprise::tokenizer
