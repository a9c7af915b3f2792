// The golden files have the results for valid maps; these tests are about invalid maps.
#include "reprise/tokenizer/precompiled_map.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/text_file.h"
#include "tests/support/source_dir.h"

namespace reprise::tokenizer {
namespace {

Component component_of(const Json& value) {
  return Component(value, "tokenizer.json", "/normalizer/precompiled_charsmap");
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t held = 0;
    for (size_t k = 0; k < 3; ++k) {
      held = held << 8U | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) {
      text.push_back(i + k > bytes.size() ? '=' : kLetters[held >> (18 - 6 * k) & 63U]);
    }
  }
  return text;
}

// The message of the refusal; "accepted" if the map was accepted.
std::string refusal(const Json& value) {
  try {
    (void)parse_precompiled_map(component_of(value)).apply("a\u0301x");
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_TOKENIZER");
    EXPECT_EQ(error.field(), "/normalizer/precompiled_charsmap");
    return error.what();
  }
  return "accepted";
}

std::string unit(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
  return bytes;
}

// A trie of 512 units with the root at 256, whose child for 'a' has a leaf with `value`.
std::string one_letter_map(uint32_t value, std::string_view texts) {
  std::vector<uint32_t> units(512, 0);
  units[0] = 256U << 10U;
  units[256 ^ 'a'] = ((256U ^ 'a') ^ 1U) << 10U | 1U << 8U | 'a';  // to the node 1
  units[1] = 1U << 31U | value;
  std::string bytes = unit(512 * 4);
  for (const uint32_t each : units) bytes += unit(each);
  return bytes.append(texts);
}

TEST(PrecompiledMap, maps_a_letter_by_its_trie) {
  const std::string bytes = one_letter_map(2, std::string_view("u\0vw\0", 5));
  const Json none;
  const PrecompiledMap map(bytes, component_of(none));
  EXPECT_EQ(map.apply("banana"), "bvwnvwnvw");
  EXPECT_EQ(map.apply("a\u0301"), "vw") << "the rest of a short cluster is lost";
  EXPECT_EQ(map.apply("a\u0301\u0301\u0301"), "vw\u0301\u0301\u0301")
      << "but not that of a long one";
  EXPECT_EQ(map.apply(std::string_view("\0a", 2)), std::string_view("\0vw", 3));
}

TEST(PrecompiledMap, names_what_is_wrong_with_a_map) {
  EXPECT_EQ(refusal(base64(one_letter_map(0, "u"))), "accepted") << "the last zero may be missing";
  const auto expect_refusal = [](const Json& value, std::string_view part) {
    EXPECT_NE(refusal(value).find(part), std::string::npos) << refusal(value);
  };
  expect_refusal(7, "expected a string");
  expect_refusal("abc", "not a multiple of 4");
  expect_refusal("ab*d", "a wrong letter at 2");
  expect_refusal("====", "a wrong letter at");
  expect_refusal("", "expected the size of a trie");
  expect_refusal(base64("abc"), "expected the size of a trie");
  expect_refusal(base64(unit(0)), "a trie of 0 bytes");
  expect_refusal(base64(unit(8) + unit(0)), "a trie of 8 bytes");
  expect_refusal(base64(unit(6) + unit(0) + unit(0)), "a trie of 6 bytes");
  expect_refusal(base64(unit(0xFFFFFFFF) + unit(0)), "a trie of 4294967295 bytes");
  expect_refusal(base64(unit(4) + unit(0)), "of a trie that has 1 units");
  expect_refusal(base64(unit(4) + unit(0xFFFFFC00)), "of a trie that has 1 units");
  expect_refusal(base64(one_letter_map(2, "ab")), "at byte 2 of 2 bytes");
  expect_refusal(base64(one_letter_map(1, "\u00e9")), "at byte 1 of 2 bytes");
  expect_refusal(base64(one_letter_map(0, "\xff")), "not UTF-8");
}

// Whatever the bytes are, a map is refused by name or gives well-formed text.
TEST(PrecompiledMap, survives_damaged_maps) {
  const Json file = parse_json(
      read_text_file(source_dir() + "/tests/goldens/tokenizers/t5.tokenizer.json"), "t5");
  const std::string sound =
      file["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>();
  EXPECT_EQ(refusal(sound), "accepted");
  std::mt19937 random(9);
  int num_refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = sound;
    for (unsigned n = 1 + random() % 6; n > 0; --n) {
      text[random() % text.size()] =
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="[random() % 65];
    }
    if (random() % 8 == 0) text.resize(random() % (text.size() / 4) * 4);
    try {
      const Json value = text;
      const PrecompiledMap map = parse_precompiled_map(component_of(value));
      EXPECT_TRUE(is_valid_utf8(map.apply("AB\u00c9e\u0301\u2026\ufb01\t abc x\U0001F600\ud55c")));
    } catch (const FileError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 1000);
  EXPECT_LT(num_refused, 4000);
}

}  // namespace
}  // namespace reprise::tokenizer
