#include "reprise/tokenizer/tokenizer_config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

class TokenizerConfigFiles : public testing::Test {
 protected:
  TokenizerConfigFiles() { std::filesystem::create_directories(dir_); }
  ~TokenizerConfigFiles() override { std::filesystem::remove_all(dir_); }

  void write(std::string_view name, std::string_view text) { std::ofstream(dir_ / name) << text; }
  std::string error_code() {
    try {
      static_cast<void>(TokenizerConfig::load(dir_));
    } catch (const FileError& error) {
      return error.code();
    }
    return "none";
  }

  std::filesystem::path dir_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TokenizerConfigFiles, may_all_be_missing) {
  const TokenizerConfig config = TokenizerConfig::load(dir_);
  EXPECT_EQ(config.eos_token, std::nullopt);
  EXPECT_EQ(config.chat_template(), "");
}

TEST_F(TokenizerConfigFiles, may_hold_named_templates_in_a_folder) {
  write("tokenizer_config.json", R"({"chat_template":[{"name":"tool_use","template":"old"}]})");
  write("chat_template.jinja", "d");
  std::filesystem::create_directories(dir_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "new");
  write("additional_chat_templates/rag.jinja", "r");
  write("additional_chat_templates/notes.txt", "n");
  const TokenizerConfig config = TokenizerConfig::load(dir_);
  EXPECT_EQ(config.chat_template(), "d");
  EXPECT_EQ(config.chat_template("tool_use"), "new");
  EXPECT_EQ(config.chat_template("rag"), "r");
  EXPECT_EQ(config.chat_templates.size(), 3u);
}

TEST_F(TokenizerConfigFiles, may_not_hold_two_templates_of_one_name) {
  write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"a"},{"name":"default","template":"b"}]})");
  EXPECT_EQ(error_code(), "E_TOKENIZER");
}

TEST_F(TokenizerConfigFiles, give_tokens_as_strings_objects_or_null) {
  write("tokenizer_config.json",
        R"({"eos_token":"<|im_end|>","bos_token":{"content":"<s>","lstrip":false},"pad_token":null,
            "add_bos_token":true,"chat_template":"{{ x }}"})");
  write("special_tokens_map.json", R"({"eos_token":"other","pad_token":{"content":"<pad>"}})");
  const TokenizerConfig config = TokenizerConfig::load(dir_);
  EXPECT_EQ(config.eos_token, "<|im_end|>");
  EXPECT_EQ(config.bos_token, "<s>");
  EXPECT_EQ(config.pad_token, "<pad>");
  EXPECT_EQ(config.unk_token, std::nullopt);
  EXPECT_EQ(config.add_bos_token, true);
  EXPECT_EQ(config.chat_template(), "{{ x }}");
}

TEST_F(TokenizerConfigFiles, may_name_several_templates_and_the_jinja_file_wins) {
  write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]})");
  EXPECT_EQ(TokenizerConfig::load(dir_).chat_template(), "d");
  write("chat_template.json", R"({"chat_template":"from json"})");
  EXPECT_EQ(TokenizerConfig::load(dir_).chat_template(), "from json");
  EXPECT_EQ(TokenizerConfig::load(dir_).template_file, "chat_template.json");
  write("chat_template.jinja", "from file\n");
  const TokenizerConfig config = TokenizerConfig::load(dir_);
  EXPECT_EQ(config.chat_template(), "from file\n");
  EXPECT_EQ(config.chat_template("tool_use"), "t");
  EXPECT_EQ(config.chat_template("rag"), "");
}

TEST_F(TokenizerConfigFiles, are_refused_with_a_code_when_they_are_broken) {
  write("tokenizer_config.json", R"({"eos_token": "x)");
  EXPECT_EQ(error_code(), "E_TRUNCATED");
  write("tokenizer_config.json", R"({"eos_token": 7})");
  EXPECT_EQ(error_code(), "E_TOKENIZER");
  write("tokenizer_config.json", "[]");
  EXPECT_EQ(error_code(), "E_TOKENIZER");
  write("tokenizer_config.json", R"({"a":1,"a":2})");
  EXPECT_EQ(error_code(), "E_TOKENIZER");
  write("tokenizer_config.json", R"({"a":)" + std::string(100'000, '['));
  EXPECT_EQ(error_code(), "E_DEPTH");
  write("tokenizer_config.json", "{}");
  write("chat_template.json", R"({"template": "x"})");
  EXPECT_EQ(error_code(), "E_TOKENIZER");
}

}  // namespace
}  // namespace reprise::tokenizer
