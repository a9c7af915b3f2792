#include "reprise/bench/stream_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "reprise/base/error.h"

namespace reprise::bench {
namespace {

std::vector<std::string> read(std::string_view body, size_t piece) {
  std::vector<std::string> found;
  StreamReader reader([&](std::string_view data) { found.emplace_back(data); });
  for (size_t i = 0; i < body.size(); i += piece) reader.feed(body.substr(i, piece));
  reader.finish();
  return found;
}

TEST(StreamReader, cuts_events_wherever_the_pieces_end) {
  const std::string body =
      ": ping\n\ndata: {\"a\":1}\n\ndata:{\"b\":2}\r\n\r\nevent: x\ndata: {\"c\":3}\n\n"
      "data: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"};
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{1000}}) {
    EXPECT_EQ(read(body, piece), expected) << piece;
  }
}

TEST(StreamReader, takes_a_last_event_without_an_empty_line) {
  EXPECT_EQ(read("data: {}\n\ndata: {\"z\":1}", 4), (std::vector<std::string>{"{}", "{\"z\":1}"}));
  EXPECT_TRUE(read("", 1).empty());
}

TEST(StreamReader, refuses_an_event_without_end) {
  StreamReader reader([](std::string_view) {});
  const std::string piece(1 << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 32; ++i) reader.feed(piece);
      },
      InvalidArgument);
}

TEST(StreamMessage, of_completions_and_chats) {
  const StreamMessage text = parse_stream_message(
      R"({"id":"x","choices":[{"index":0,"logprobs":{"tokens":["a"],"text":"no"},"text":"hi\n"}],"usage":null})");
  EXPECT_TRUE(text.has_choice);
  EXPECT_EQ(text.text, "hi\n");
  EXPECT_FALSE(text.completion_tokens);
  const StreamMessage delta =
      parse_stream_message(R"({"choices":[{"delta":{"role":"assistant","content":"yo"}}]})");
  EXPECT_TRUE(delta.has_choice);
  EXPECT_EQ(delta.text, "yo");
  const StreamMessage role = parse_stream_message(R"({"choices":[{"delta":{"content":null}}]})");
  EXPECT_TRUE(role.has_choice);
  EXPECT_EQ(role.text, "");
}

TEST(StreamMessage, usage_and_errors) {
  const StreamMessage usage = parse_stream_message(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":12,"total_tokens":19}})");
  EXPECT_FALSE(usage.has_choice);
  EXPECT_EQ(usage.completion_tokens, 12);
  EXPECT_EQ(parse_stream_message(R"({"error":{"message":"gone","code":500}})").error, "gone");
  EXPECT_EQ(parse_stream_message(R"({"error":"gone"})").error, "gone");
  EXPECT_EQ(parse_stream_message(R"({"error":null,"choices":[{"text":"a"}]})").error, "");
  EXPECT_THROW(static_cast<void>(parse_stream_message("{")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(parse_stream_message(std::string(5000, '['))), InvalidArgument);
}

TEST(StreamMessage, takes_the_first_choice_only) {
  const StreamMessage message =
      parse_stream_message(R"({"choices":[{"text":"a"},{"text":"b"}],"text":"c"})");
  EXPECT_EQ(message.text, "a");
}

}  // namespace
}  // namespace reprise::bench
