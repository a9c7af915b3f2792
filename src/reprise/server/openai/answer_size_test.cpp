#include "reprise/server/openai/answer_size.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

constexpr int64_t kContext = 4096;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

GenerationRequest request_of(const std::string& fields, const std::string& prompt = "[1, 2]") {
  return parse_completion_request(R"({"prompt": )" + prompt + ", " + fields + "}", {});
}

std::vector<EncodedPrompt> prompts_of(int count, size_t num_tokens) {
  return std::vector<EncodedPrompt>(static_cast<size_t>(count),
                                    {.token_ids = std::vector<int32_t>(num_tokens, 5)});
}

std::string field_of_refusal(const GenerationRequest& request,
                             const std::vector<EncodedPrompt>& prompts,
                             int64_t max_bytes) {
  try {
    check_answer_size(request, prompts, kContext, max_bytes);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.param().value_or("");
  }
  return "accepted";
}

TEST(AnswerSize, counts_each_prompt_token_with_its_log_probabilities_and_each_answer) {
  const auto prompts = prompts_of(3, 1000);
  const std::string three = "[[1], [2], [3]]";
  const auto bytes = [&](const std::string& fields) {
    return answer_bytes(request_of(fields, three), prompts, kContext);
  };
  EXPECT_EQ(bytes(R"("max_tokens": 1)"), 0);
  EXPECT_EQ(bytes(R"("max_tokens": 1, "prompt_logprobs": 0)"), 3 * 1000 * 100);
  EXPECT_EQ(bytes(R"("max_tokens": 1, "prompt_logprobs": 20)"), 3 * 1000 * 21 * 100);
  EXPECT_EQ(bytes(R"("max_tokens": 1, "prompt_logprobs": 20, "n": 5)"), 5 * 3 * 1000 * 21 * 100);
  // With echo, `logprobs` are those of the prompt too.
  EXPECT_EQ(bytes(R"("max_tokens": 1, "logprobs": 4, "echo": true)"), 3 * (1000 + 1) * 5 * 100);
}

TEST(AnswerSize, counts_output_only_for_several_answers) {
  const auto one = prompts_of(1, 96);
  EXPECT_EQ(answer_bytes(request_of(R"("max_tokens": 500, "logprobs": 9)"), one, kContext), 0);
  EXPECT_EQ(answer_bytes(request_of(R"("max_tokens": 500, "logprobs": 9, "n": 2)"), one, kContext),
            2 * 500 * 10 * 100);
  // Without max_tokens, the context limits the answer.
  GenerationRequest open_end = request_of(R"("logprobs": 9, "n": 2)");
  open_end.params.max_tokens.reset();
  EXPECT_EQ(answer_bytes(open_end, one, kContext), 2 * 4000 * 10 * 100);
}

TEST(AnswerSize, accepts_the_limit_and_refuses_one_byte_more) {
  const GenerationRequest request = request_of(R"("max_tokens": 1, "prompt_logprobs": 20)");
  const auto prompts = prompts_of(1, 1000);
  EXPECT_EQ(field_of_refusal(request, prompts, 1000 * 21 * 100), "accepted");
  EXPECT_EQ(field_of_refusal(request, prompts, 1000 * 21 * 100 - 1), "prompt_logprobs");
  EXPECT_EQ(
      field_of_refusal(request_of(R"("max_tokens": 9, "logprobs": 3, "n": 128)"), prompts, 100000),
      "logprobs");
}

TEST(AnswerSize, refuses_a_stream_whose_first_event_would_disconnect_its_client) {
  const std::string fields = R"("max_tokens": 1, "logprobs": 4, "echo": true, "stream": true)";
  const auto fits = static_cast<size_t>(kMaxEventBytes / (5 * kBytesPerLogprob));
  EXPECT_EQ(field_of_refusal(request_of(fields), prompts_of(1, fits), kNoLimit), "accepted");
  EXPECT_EQ(field_of_refusal(request_of(fields), prompts_of(1, fits + 1), kNoLimit), "logprobs");
}

}  // namespace
}  // namespace reprise::server
