#include "reprise/server/openai/answer_reader.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::server {
namespace {

constexpr std::string_view kQwen = "<|im_start|> <tool_call> </tool_call> <think> </think>";
constexpr std::string_view kHarmony = "<|channel|>analysis to=functions.";

TEST(AnswerReader, the_chat_template_chooses_parsers_that_were_asked_for) {
  std::vector<std::string> notes;
  const AnswerReaderOptions chosen =
      resolve_parsers({.enable_auto_tool_choice = true, .reasoning_parser = "auto"}, kQwen, notes);
  EXPECT_EQ(chosen, (AnswerReaderOptions{true, "hermes", "qwen3"}));
  EXPECT_EQ(notes.size(), 2U);
}

TEST(AnswerReader, a_parser_by_name_stays_and_none_is_chosen_unasked) {
  std::vector<std::string> notes;
  const AnswerReaderOptions named{true, "mistral", "deepseek_r1"};
  EXPECT_EQ(resolve_parsers(named, kQwen, notes), named);
  EXPECT_EQ(resolve_parsers({}, kQwen, notes), AnswerReaderOptions{});
  EXPECT_TRUE(notes.empty());
}

TEST(AnswerReader, harmony_always_gets_its_reasoning_parser) {
  std::vector<std::string> notes;
  EXPECT_EQ(resolve_parsers({}, kHarmony, notes).reasoning_parser, "openai_gptoss");
}

TEST(AnswerReader, tool_calls_without_a_known_form_are_refused) {
  std::vector<std::string> notes;
  EXPECT_THROW((void)resolve_parsers({.enable_auto_tool_choice = true}, "{{ messages }}", notes),
               InvalidArgument);
  const AnswerReaderOptions none =
      resolve_parsers({.reasoning_parser = "auto"}, "{{ messages }}", notes);
  EXPECT_EQ(none.reasoning_parser, "") << "reasoning is only a convenience";
}

}  // namespace
}  // namespace reprise::server
