// The expected results are those of Transformers and tiktoken for the folders in
// tests/goldens/vocabulary_files (made by make_vocabulary_file_goldens.py there).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/incremental_detokenizer.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/vocabulary_files/tokenizer_folder.h"
#include "tests/support/source_dir.h"

namespace reprise::tokenizer {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

fs::path golden_folder(std::string_view kind) {
  return fs::path(source_dir()) / "tests/goldens/vocabulary_files" / kind;
}

class VocabularyFiles : public testing::TestWithParam<std::string> {
 protected:
  VocabularyFiles()
      : tokenizer_(load_tokenizer_folder(golden_folder(GetParam()))),
        cases_(parse_json(read_text_file(golden_folder(GetParam()) / "golden.json"),
                          "golden")["cases"]) {}

  Tokenizer tokenizer_;
  Json cases_;
};

TEST_P(VocabularyFiles, encode_every_text_as_the_reference_does) {
  ASSERT_GT(cases_.size(), 70u);
  for (const Json& item : cases_) {
    const auto text = item["text"].get<std::string>();
    const Ids plain = item["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_.encode(text, {.add_special_tokens = false}), plain) << item["text"].dump();
    EXPECT_EQ(tokenizer_.encode(text), item.value("with_special", plain)) << item["text"].dump();
  }
}

TEST_P(VocabularyFiles, decode_as_the_reference_does_also_token_by_token) {
  for (const Json& item : cases_) {
    const Ids ids = item["ids"].get<Ids>();
    const auto whole = item["decoded"].get<std::string>();
    EXPECT_EQ(tokenizer_.decode(ids, false), whole) << item["text"].dump();
    EXPECT_EQ(tokenizer_.decode(ids, true), item.value("decoded_skip", whole))
        << item["text"].dump();
    IncrementalDetokenizer stream(tokenizer_, false);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(std::span(&id, 1));
      ASSERT_TRUE(is_valid_utf8(piece));
      text += piece;
    }
    EXPECT_EQ(text + stream.flush(), whole);
  }
}

TEST_P(VocabularyFiles, never_give_a_control_token_for_text_of_users) {
  for (const Json& item : cases_) {
    const auto text = item["text"].get<std::string>();
    const auto unknown = tokenizer_.token_to_id(tokenizer_.config().unk_token.value_or(""));
    for (const int32_t id :
         tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = false})) {
      EXPECT_TRUE(!tokenizer_.is_special(id) || id == unknown) << item["text"].dump();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         VocabularyFiles,
                         testing::Values("albert",
                                         "bert",
                                         "gemma",
                                         "gpt2",
                                         "internlm2",
                                         "kimi",
                                         "llama",
                                         "llama-new",
                                         "opt",
                                         "qwen1",
                                         "qwen2",
                                         "roberta",
                                         "sentencepiece-words",
                                         "t5",
                                         "tekken",
                                         "unigram-bytes",
                                         "xlm-roberta"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// A folder that tests change.
class TokenizerFolder : public testing::Test {
 protected:
  TokenizerFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TokenizerFolder() override { fs::remove_all(folder_); }

  void copy(std::string_view kind) {
    fs::copy(golden_folder(kind), folder_, fs::copy_options::recursive);
  }
  void write(std::string_view name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(load_tokenizer_folder(folder_));
    } catch (const FileError& error) {
      return error.what();
    }
    return "loads";
  }
  void expect_refusal(std::string_view sentence) const {
    EXPECT_NE(refusal().find(sentence), std::string::npos) << refusal();
  }

  fs::path folder_ =
      fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TokenizerFolder, without_a_vocabulary_says_which_files_it_may_have_and_how_to_convert) {
  expect_refusal("tekken.json, tokenizer.model");
  expect_refusal("save_pretrained(DIR) writes a tokenizer.json");
}

TEST_F(TokenizerFolder, needs_the_merges_beside_the_vocabulary) {
  copy("gpt2");
  fs::remove(folder_ / "merges.txt");
  expect_refusal("merges.txt: no such file");
}

TEST_F(TokenizerFolder, needs_a_class_beside_the_vocabulary) {
  copy("gpt2");
  fs::remove(folder_ / "config.json");
  expect_refusal("/tokenizer_class: is required");
  write("tokenizer_config.json", R"({"tokenizer_class":"CLIPTokenizer"})");
  expect_refusal("'CLIPTokenizer' is not supported with vocab.json");
}

TEST_F(TokenizerFolder, refuses_classes_that_renumber_the_pieces) {
  copy("xlm-roberta");
  write("tokenizer_config.json", R"({"tokenizer_class":"CamembertTokenizerFast"})");
  expect_refusal("'CamembertTokenizer' numbers the pieces");
}

TEST_F(TokenizerFolder, prefers_tokenizer_json) {
  copy("gpt2");
  write("tokenizer.json", "{}");
  expect_refusal("tokenizer.json: member 'model' is missing");
}

TEST_F(TokenizerFolder, names_the_tokens_that_the_model_names) {
  copy("sentencepiece-words");
  const Tokenizer tokenizer = load_tokenizer_folder(folder_);
  EXPECT_EQ(tokenizer.config().bos_token, "<s>");
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
}

TEST_F(TokenizerFolder, reads_a_tokenizer_model_that_is_a_file_of_tiktoken) {
  copy("kimi");
  fs::rename(folder_ / "tiktoken.model", folder_ / "tokenizer.model");
  const auto size = load_tokenizer_folder(folder_).vocab_size();
  write("tokenizer_config.json",
        R"({"bos_token":"<|begin_of_text|>","add_bos_token":true,"added_tokens_decoder":
            {"400":{"content":"<|begin_of_text|>","special":true}}})");
  const Tokenizer tokenizer = load_tokenizer_folder(folder_);
  EXPECT_GT(size, 256);
  EXPECT_EQ(tokenizer.encode("a"), (Ids{400, 'a'}));
  write("tokenizer_config.json", R"({"tokenizer_class":"XverseTokenizer"})");
  expect_refusal("'XverseTokenizer' is not supported with a file of tiktoken");
}

TEST_F(TokenizerFolder, refuses_files_of_tiktoken_that_are_damaged) {
  copy("qwen1");
  const auto expect = [&](std::string_view lines, std::string_view sentence) {
    write("qwen.tiktoken", lines);
    expect_refusal(sentence);
  };
  expect("", "the file has no tokens");
  expect("YQ== 0\n", "the byte 0x00 has no token");
  expect("YQ==0\n", "line 1: expected base64, a space and a rank");
  expect("YQ== 0\nY!== 1\n", "line 2: is not base64: a wrong letter at 1");
  expect("YQ== 99999999999\n", "line 1: the rank is not a small number");
  expect("YQ== 0\nYQ== 1\n", "is repeated");
  expect(" 0\n", "line 1: the token has no bytes");
}

TEST_F(TokenizerFolder, refuses_tekken_files_that_are_damaged) {
  copy("tekken");
  const Json file = parse_json(read_text_file(folder_ / "tekken.json"), "tekken");
  const auto expect = [&](const std::string& pointer, const Json& value, std::string_view text) {
    Json changed = file;
    changed[Json::json_pointer(pointer)] = value;
    write("tekken.json", changed.dump());
    expect_refusal(text);
  };
  expect("/config/pattern", "", "/config/pattern: is required");
  expect("/config/pattern", "(", "E_REGEX");
  expect("/config/default_vocab_size", 5, "/config/default_vocab_size: is 5");
  expect("/config/default_vocab_size", 100'000, "/config/default_vocab_size: is 100000");
  expect("/config/default_num_special_tokens", 2, "is 2, but there are 6 special tokens");
  expect("/special_tokens/1/rank", 0, "the rank is repeated");
  expect("/special_tokens/1/rank", 6, "expected an integer from 0 to 5");
  expect("/vocab/7/rank", 8, "/vocab/7/rank: the ranks must be 0, 1, 2");
  expect("/vocab/7/token_bytes", "", "/vocab/7/token_bytes: 0 bytes");
  expect("/vocab/7/token_bytes", "?", "/vocab/7/token_bytes: is not base64");
  expect("/vocab/7/token_bytes", "AA==", "is repeated");
}

TEST_F(TokenizerFolder, gives_a_tekken_file_without_special_tokens_the_first_ones) {
  copy("tekken");
  Json file = parse_json(read_text_file(folder_ / "tekken.json"), "tekken");
  file.erase("special_tokens");
  file["config"].erase("default_vocab_size");
  file["config"]["default_num_special_tokens"] = 21;
  write("tekken.json", file.dump());
  const Tokenizer tokenizer = load_tokenizer_folder(folder_);
  EXPECT_EQ(tokenizer.encode("[TOOL_CALLS]a"), (Ids{1, 9, 21 + 'a'}));
  EXPECT_EQ(tokenizer.token_to_id("<SPECIAL_20>"), 20);
}

}  // namespace
}  // namespace reprise::tokenizer
