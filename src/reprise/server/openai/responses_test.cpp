#include "reprise/server/openai/responses.h"

#include <gtest/gtest.h>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

const AnswerHead kCompletion = {.id = "cmpl-1", .created = 5, .model = "m"};
const AnswerHead kChat = {.is_chat = true, .id = "chatcmpl-1", .created = 5, .model = "m"};

TEST(Responses, an_event_is_one_line_of_data_and_an_empty_line) {
  EXPECT_EQ(sse_event({{"text", "a\n\nb\r"}}), "data: {\"text\":\"a\\n\\nb\\r\"}\n\n");
}

TEST(Responses, a_completion_has_the_fields_of_vllm) {
  const scheduler::StopReason stop = std::string("END");
  EXPECT_EQ(
      answer_json(
          kCompletion, {{.text = "hi", .finish_reason = "stop", .stop_reason = &stop}}, {3, 2}),
      parse_json(R"({"id": "cmpl-1", "object": "text_completion", "created": 5, "model": "m",
                           "choices": [{"index": 0, "text": "hi", "logprobs": null, "finish_reason": "stop",
                                        "stop_reason": "END"}],
                           "usage": {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2,
                                     "prompt_tokens_details": null},
                           "system_fingerprint": null})",
                 "test"));
}

TEST(Responses, a_chat_stream_has_roles_deltas_and_usage) {
  EXPECT_EQ(role_chunk(kChat, 1)["choices"][0]["delta"],
            (Json{{"role", "assistant"}, {"content", ""}}));
  const Json chunk = text_chunk(kChat, {.index = 1, .text = "a"});
  EXPECT_EQ(chunk["object"], "chat.completion.chunk");
  EXPECT_EQ(chunk["choices"][0]["delta"], (Json{{"content", "a"}}));
  EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
  const scheduler::StopReason stop = 7;
  EXPECT_EQ(
      text_chunk(kChat,
                 {.finish_reason = "stop", .stop_reason = &stop})["choices"][0]["stop_reason"],
      7);
  EXPECT_EQ(usage_chunk(kChat, {3, 2})["choices"], Json::array());
  EXPECT_EQ(usage_chunk(kChat, {3, 2})["usage"]["total_tokens"], 5);
}

TEST(Responses, an_error_has_type_code_and_param) {
  EXPECT_EQ(
      error_body(ApiError(400, "no", "top_p")),
      parse_json(
          R"({"error": {"message": "no", "type": "BadRequestError", "param": "top_p", "code": 400}})",
          "test"));
  EXPECT_EQ(error_body(ApiError(404, "no"))["error"]["type"], "NotFoundError");
  const HttpResponse full = error_response(ApiError(429, "full"));
  ASSERT_EQ(full.headers.size(), 1U);
  EXPECT_EQ(full.headers[0].first, "Retry-After");
}

TEST(Responses, bytes_that_are_not_utf8_never_throw) {
  EXPECT_EQ(dump({{"a", "\xff"}}), "{\"a\":\"\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace reprise::server
