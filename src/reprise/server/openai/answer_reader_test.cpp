#include "reprise/server/openai/answer_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/support/source_dir.h"

namespace reprise::server {
namespace {

const output_parsers::ChosenParsers kQwen{"hermes", "qwen3"};
const output_parsers::ChosenParsers kHarmony{"openai", "openai_gptoss"};
const output_parsers::ChosenParsers kUnknown;

TEST(AnswerReader, the_chat_template_chooses_parsers_that_were_asked_for) {
  std::vector<std::string> notes;
  const AnswerReaderOptions chosen =
      resolve_parsers({.enable_auto_tool_choice = true, .reasoning_parser = "auto"}, kQwen, notes);
  EXPECT_EQ(chosen, (AnswerReaderOptions{true, "hermes", "qwen3"}));
  EXPECT_EQ(notes.size(), 2U);
}

TEST(AnswerReader, a_parser_by_name_stays) {
  std::vector<std::string> notes;
  const AnswerReaderOptions named{true, "mistral", "deepseek_r1"};
  EXPECT_EQ(resolve_parsers(named, kQwen, notes), named);
  EXPECT_EQ(resolve_parsers({.tool_call_parser = "mistral"}, kQwen, notes),
            (AnswerReaderOptions{true, "mistral", ""}));
  EXPECT_TRUE(notes.empty());
}

TEST(AnswerReader, tools_work_without_an_option_where_the_template_shows_their_form) {
  std::vector<std::string> notes;
  EXPECT_EQ(resolve_parsers({}, kQwen, notes), (AnswerReaderOptions{true, "hermes", ""}));
  EXPECT_EQ(notes.size(), 1U);
  EXPECT_EQ(resolve_parsers({.enable_auto_tool_choice = false}, kQwen, notes),
            (AnswerReaderOptions{false, "", ""}));
  EXPECT_EQ(resolve_parsers({}, kUnknown, notes), (AnswerReaderOptions{false, "", ""}));
  EXPECT_EQ(notes.size(), 1U) << "a model without tools needs no line about them";
}

TEST(AnswerReader, harmony_always_gets_its_reasoning_parser) {
  std::vector<std::string> notes;
  EXPECT_EQ(resolve_parsers({}, kHarmony, notes).reasoning_parser, "openai_gptoss");
}

TEST(AnswerReader, tool_calls_without_a_known_form_are_refused) {
  std::vector<std::string> notes;
  EXPECT_THROW((void)resolve_parsers({.enable_auto_tool_choice = true}, kUnknown, notes),
               InvalidArgument);
  const AnswerReaderOptions none = resolve_parsers({.reasoning_parser = "auto"}, kUnknown, notes);
  EXPECT_EQ(none.reasoning_parser, "") << "reasoning is only a convenience";
}

/// One token for each byte, and tokens for the delimiters of Qwen3.
class EndsInReasoning : public testing::Test {
 protected:
  std::optional<bool> after(const std::string& prompt,
                            bool continues_message = false,
                            const char* parser = "qwen3") {
    const std::vector<int32_t> ids = tokenizer_.encode(prompt, {.add_special_tokens = false});
    return ends_in_reasoning({.reasoning_parser = parser}, tokenizer_, ids, continues_message);
  }

 private:
  // Its vocabulary has no <think>, so the delimiter is several tokens.
  const tokenizer::Tokenizer tokenizer_ =
      tokenizer::Tokenizer::load(source_dir() + "/models/reprise-tiny");
};

TEST_F(EndsInReasoning, the_last_words_of_the_prompt_say_whether_the_reasoning_is_open) {
  EXPECT_EQ(after("q\nassistant\n<think>\n"), true);
  EXPECT_EQ(after("q\nassistant\n<think>\n\n</think>\n\n"), false);
  EXPECT_EQ(after("q\nassistant\n"), std::nullopt);
  EXPECT_EQ(after("<think>a</think>b\nq\nassistant\n"), std::nullopt) << "an earlier answer";
  EXPECT_EQ(after("What does <think> mean?\nassistant\n"), std::nullopt) << "only named";
  EXPECT_EQ(after("model\n<|channel>thought\n", false, "gemma4"), true);
  EXPECT_EQ(after("start<|channel|>analysis<|message|>", false, "openai_gptoss"), std::nullopt);
}

TEST_F(EndsInReasoning, a_continued_answer_goes_on_where_it_was) {
  EXPECT_EQ(after("q\nassistant\n<think>\nLet me " + std::string(500, 'x'), true), true);
  EXPECT_EQ(after("q\nassistant\n<think>a</think>The answer", true), false);
  EXPECT_EQ(after("q\nassistant\nThe answer", true, "deepseek_r1"), false);
}

}  // namespace
}  // namespace reprise::server
