#include "reprise/server/openai/answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "reprise/tokenizer/tokenizer.h"
#include "tests/support/source_dir.h"

namespace reprise::server {
namespace {

class RecordingExchange final : public HttpExchange {
 public:
  void respond(HttpResponse response) override { status = response.status; }
  void begin_stream(const HttpResponse& head) override { status = head.status; }
  void write(std::string_view bytes) override { written += bytes; }
  void finish_stream() override {}
  [[nodiscard]] bool client_is_gone() const override { return false; }
  void on_disconnect(std::function<void()>) override {}
  void note(AnswerFacts) override {}

  int status = 0;
  std::string written;
};

constexpr auto kLongAgo = std::chrono::hours(-1);
constexpr auto kLater = std::chrono::hours(1);

class KeepAlive : public testing::Test {
 protected:
  std::unique_ptr<Answer> answer_to(const std::string& body) {
    return std::make_unique<Answer>(parse_completion_request(body, {}),
                                    std::vector<EncodedPrompt>{{.token_ids = {1}}},
                                    AnswerHead{.id = "cmpl-1", .model = "tiny"},
                                    "1",
                                    Usage{},
                                    tokenizer_,
                                    exchange_);
  }
  static api::TimePoint now() { return std::chrono::steady_clock::now(); }

  std::shared_ptr<RecordingExchange> exchange_ = std::make_shared<RecordingExchange>();

 private:
  const tokenizer::Tokenizer tokenizer_ =
      tokenizer::Tokenizer::load(source_dir() + "/models/reprise-tiny");
};

TEST_F(KeepAlive, a_stream_that_was_silent_since_then_gets_a_comment) {
  const auto answer = answer_to(R"({"prompt": "x", "stream": true})");
  answer->keep_alive(now() + kLongAgo);
  EXPECT_EQ(exchange_->written, "") << "it was not silent for so long";
  EXPECT_EQ(exchange_->status, 0);
  answer->keep_alive(now() + kLater);
  EXPECT_EQ(exchange_->written, ": keep-alive\n\n");
  EXPECT_EQ(exchange_->status, 200);
}

TEST_F(KeepAlive, what_is_sent_ends_the_silence) {
  const auto answer = answer_to(R"({"prompt": "x", "stream": true})");
  const api::TimePoint begin = now();
  answer->take(0, {.text = "y", .token_ids = {5}});
  const std::string event = exchange_->written;
  EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n"));
  answer->keep_alive(begin);
  EXPECT_EQ(exchange_->written, event);
  answer->keep_alive(now() + kLater);
  EXPECT_EQ(exchange_->written, event + ": keep-alive\n\n");
  answer->keep_alive(begin);
  EXPECT_EQ(exchange_->written, event + ": keep-alive\n\n") << "a comment ends it too";
}

TEST_F(KeepAlive, an_error_after_a_comment_is_an_event) {
  const auto answer = answer_to(R"({"prompt": "x", "stream": true})");
  answer->keep_alive(now() + kLater);
  answer->fail(ApiError(503, "gone"));
  EXPECT_EQ(exchange_->status, 200);
  EXPECT_TRUE(exchange_->written.starts_with(": keep-alive\n\ndata: {\"error\""))
      << exchange_->written;
  EXPECT_TRUE(exchange_->written.ends_with("data: [DONE]\n\n"));
}

TEST_F(KeepAlive, an_answer_in_one_piece_gets_none) {
  const auto answer = answer_to(R"({"prompt": "x"})");
  answer->keep_alive(now() + kLater);
  EXPECT_EQ(exchange_->written, "");
  EXPECT_EQ(exchange_->status, 0);
}

}  // namespace
}  // namespace reprise::server
