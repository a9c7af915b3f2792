// The expected results are those of the PyPI package `tokenizers` for the fixtures in
// tests/goldens/tokenizers (made by make_tokenizer_goldens.py there). One suite instance per kind
// of tokenizer.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/incremental_detokenizer.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/support/source_dir.h"

namespace reprise::tokenizer {
namespace {

using Ids = std::vector<int32_t>;

std::string fixture(std::string_view kind, std::string_view suffix) {
  return fmt::format("{}/tests/goldens/tokenizers/{}.{}", source_dir(), kind, suffix);
}

/// FNV-1a over whole ids, like in make_tokenizer_goldens.py.
std::string digest(const Ids& ids) {
  uint64_t value = 0xcbf29ce484222325ull;
  for (const int32_t id : ids) value = (value ^ static_cast<uint32_t>(id)) * 0x100000001b3ull;
  return fmt::format("{:016x}", value);
}

class TokenizerGolden : public testing::TestWithParam<std::string> {
 protected:
  TokenizerGolden()
      : tokenizer_(Tokenizer::from_json(read_text_file(fixture(GetParam(), "tokenizer.json")))),
        golden_(parse_json(read_text_file(fixture(GetParam(), "golden.json")), "golden")) {}

  Tokenizer tokenizer_;
  Json golden_;
};

TEST_P(TokenizerGolden, encodes_every_text_as_the_reference_does) {
  ASSERT_GT(golden_["cases"].size(), 400u);
  for (const Json& item : golden_["cases"]) {
    const auto text = item["text"].get<std::string>();
    const Ids plain = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_.encode(text, {.add_special_tokens = false}), plain) << item["text"].dump();
    EXPECT_EQ(tokenizer_.encode(text), item.value("with_special", plain)) << item["text"].dump();
  }
}

TEST_P(TokenizerGolden, encodes_special_tokens_as_text_as_the_reference_does) {
  for (const Json& item : golden_["cases"]) {
    const auto text = item["text"].get<std::string>();
    const Ids expected = item.value("as_text", item["ids"].get<Ids>());
    EXPECT_EQ(tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = false}),
              expected)
        << item["text"].dump();
  }
}

TEST_P(TokenizerGolden, decodes_as_the_reference_does) {
  for (const char* group : {"cases", "decodes"}) {
    for (const Json& item : golden_[group]) {
      const Ids ids = item["ids"].get<Ids>();
      const auto whole = item["decoded"].get<std::string>();
      EXPECT_EQ(tokenizer_.decode(ids, false), whole) << item["ids"].dump();
      EXPECT_EQ(tokenizer_.decode(ids, true), item.value("decoded_skip", whole))
          << item["ids"].dump();
    }
  }
}

TEST_P(TokenizerGolden, streams_the_same_text_in_valid_utf8_however_the_ids_are_cut) {
  std::mt19937 random(3);
  for (const char* group : {"cases", "decodes"}) {
    for (const Json& item : golden_[group]) {
      const Ids ids = item["ids"].get<Ids>();
      for (const size_t longest_chunk : {1, 2, 7}) {
        IncrementalDetokenizer stream(tokenizer_, false);
        std::string text;
        for (size_t begin = 0; begin < ids.size();) {
          const size_t count = std::min(ids.size() - begin, 1 + random() % longest_chunk);
          const std::string piece = stream.push(std::span(ids).subspan(begin, count));
          ASSERT_TRUE(is_valid_utf8(piece));
          text += piece;
          begin += count;
        }
        const std::string rest = stream.flush();
        ASSERT_TRUE(is_valid_utf8(rest));
        ASSERT_EQ(text + rest, item["decoded"].get<std::string>());
      }
    }
  }
}

TEST_P(TokenizerGolden, encodes_a_megabyte_of_one_thing_as_the_reference_does) {
  for (const Json& item : golden_["adversarial"]) {
    const auto unit = item["unit"].get<std::string>();
    const auto repeats = item["repeats"].get<size_t>();
    std::string text;
    text.reserve(unit.size() * repeats);
    for (size_t i = 0; i < repeats; ++i) text += unit;
    text += item["tail"].get<std::string>();
    const Ids ids = tokenizer_.encode(text, {.add_special_tokens = false});
    EXPECT_EQ(ids.size(), item["count"].get<size_t>()) << item["name"];
    EXPECT_EQ(digest(ids), item["digest"].get<std::string>()) << item["name"];
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         TokenizerGolden,
                         testing::Values("qwen2",
                                         "llama3",
                                         "gpt2",
                                         "falcon",
                                         "llama2",
                                         "mistral",
                                         "metaspace",
                                         "bert",
                                         "xlm-roberta",
                                         "t5"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace reprise::tokenizer
