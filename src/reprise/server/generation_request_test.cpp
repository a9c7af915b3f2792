#include "reprise/server/generation_request.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/server/api_error.h"

namespace reprise::server {
namespace {

struct BadBody {
  std::string body;
  std::optional<std::string> param;  // nothing: the body as a whole
};

template <typename Parse>
void expect_refused(Parse parse, const BadBody& bad) {
  SCOPED_TRACE(bad.body.substr(0, 120));
  try {
    const auto request = parse(bad.body);
    if constexpr (requires { request.params; }) check_sampling(request, 1000);
    ADD_FAILURE() << "was accepted";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), bad.param) << error.what();
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

GenerationRequest completion(const std::string& body) { return parse_completion_request(body, {}); }
GenerationRequest chat(const std::string& body) { return parse_chat_request(body, {}); }

std::string completion_with(const std::string& members) {
  return R"({"prompt": "a", )" + members + "}";
}
std::string chat_with(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "a"}], )" + members + "}";
}

TEST(GenerationRequest, reads_every_sampling_field_of_a_completion) {
  const GenerationRequest request = completion(completion_with(
      R"("model": "m", "max_tokens": 5, "temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125,
         "seed": -3, "repetition_penalty": 1.5, "presence_penalty": -1, "frequency_penalty": 2,
         "min_tokens": 2, "stop": ["x", "y"], "stop_token_ids": [4], "ignore_eos": true,
         "include_stop_str_in_output": true, "skip_special_tokens": false, "logit_bias": {"12": -200},
         "allowed_token_ids": [1, 2], "n": 3, "best_of": 3, "stream": true,
         "stream_options": {"include_usage": true, "continuous_usage_stats": true},
         "add_special_tokens": false, "user": "u", "nobody_knows_this": {"a": [1]})"));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.n, 3);
  EXPECT_TRUE(request.stream && request.include_usage && request.continuous_usage);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_EQ(request.params,
            (sampling::SamplingParams{.temperature = 0.5F,
                                      .top_p = 0.25F,
                                      .top_k = 7,
                                      .min_p = 0.125F,
                                      .seed = -3,
                                      .repetition_penalty = 1.5F,
                                      .presence_penalty = -1,
                                      .frequency_penalty = 2,
                                      .max_tokens = 5,
                                      .min_tokens = 2,
                                      .stop = {"x", "y"},
                                      .stop_token_ids = {4},
                                      .ignore_eos = true,
                                      .include_stop_str_in_output = true,
                                      .skip_special_tokens = false,
                                      .logit_bias = {{12, -100.0F}},
                                      .allowed_token_ids = {1, 2}}));
}

TEST(GenerationRequest, takes_null_for_absent_and_absent_for_the_defaults) {
  sampling::SamplingParams defaults;
  defaults.temperature = 0.25F;
  defaults.max_tokens = 99;
  const GenerationRequest request = parse_completion_request(
      completion_with(
          R"("temperature": null, "stop": null, "max_tokens": null, "logprobs": null, "n": null,
                         "stream_options": null, "tools": [], "tool_choice": "none", "suffix": null)"),
      defaults);
  EXPECT_EQ(request.params.temperature, 0.25F);
  EXPECT_EQ(request.params.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.stream);
  const GenerationRequest chatting =
      parse_chat_request(chat_with(R"("logprobs": false)"), defaults);
  EXPECT_EQ(chatting.params.max_tokens, std::nullopt) << "the rest of the context";
  EXPECT_FALSE(chatting.add_special_tokens);
}

TEST(GenerationRequest, reads_prompts_in_all_four_shapes) {
  EXPECT_EQ(completion(R"({"prompt": "a"})").prompts, std::vector<Prompt>{"a"});
  EXPECT_EQ(completion(R"({"prompt": ["a", "b"]})").prompts, (std::vector<Prompt>{"a", "b"}));
  EXPECT_EQ(completion(R"({"prompt": [1, 2]})").prompts,
            (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(completion(R"({"prompt": [[1], [2, 3]]})").prompts,
            (std::vector<Prompt>{std::vector<int32_t>{1}, std::vector<int32_t>{2, 3}}));
}

TEST(GenerationRequest, reads_content_parts_and_both_names_of_max_tokens) {
  const GenerationRequest request = chat(
      R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                       {"role": "assistant", "content": null, "name": "n"}],
          "max_tokens": 7, "max_completion_tokens": 9, "response_format": {"type": "text"}})");
  EXPECT_EQ(request.messages,
            parse_json(R"([{"role": "system", "content": "a\nb"},
                                             {"role": "assistant", "content": "", "name": "n"}])",
                       "test"));
  EXPECT_EQ(request.params.max_tokens, 9);
  EXPECT_EQ(chat(chat_with(R"("max_tokens": 7)")).params.max_tokens, 7);
}

TEST(GenerationRequest, refuses_bad_completions_naming_the_field) {
  const std::string deep(100, '[');
  const std::vector<BadBody> bad = {
      {"", {}},
      {"{", {}},
      {"[]", {}},
      {"\"a\"", {}},
      {"{\"prompt\": \"\xff\"}", {}},
      {R"({"prompt": "\ud800"})", {}},
      {R"({"prompt": "a", "prompt": "b"})", {}},
      {R"({"prompt": "a"} x)", {}},
      {R"({"prompt": "a", "seed": 1e999})", {}},
      {R"({"prompt": )" + deep, {}},
      {"{}", "prompt"},
      {R"({"prompt": null})", "prompt"},
      {R"({"prompt": 3})", "prompt"},
      {R"({"prompt": {}})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": ["a", 1]})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": [1, 2.5]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": [4294967296]})", "prompt"},
      {R"({"prompt": [[1], "a"]})", "prompt"},
      {completion_with(R"("model": 3)"), "model"},
      {completion_with(R"("max_tokens": 0)"), "max_tokens"},
      {completion_with(R"("max_tokens": -1)"), "max_tokens"},
      {completion_with(R"("max_tokens": 1.0)"), "max_tokens"},
      {completion_with(R"("max_tokens": "5")"), "max_tokens"},
      {completion_with(R"("max_tokens": true)"), "max_tokens"},
      {completion_with(R"("max_tokens": 99999999999)"), "max_tokens"},
      {completion_with(R"("max_tokens": 99999999999999999999)"), "max_tokens"},
      {completion_with(R"("temperature": "hot")"), "temperature"},
      {completion_with(R"("temperature": true)"), "temperature"},
      {completion_with(R"("temperature": -0.1)"), "temperature"},
      {completion_with(R"("temperature": 1e300)"), "temperature"},
      {completion_with(R"("top_p": 0)"), "top_p"},
      {completion_with(R"("top_p": 1.5)"), "top_p"},
      {completion_with(R"("top_k": -2)"), "top_k"},
      {completion_with(R"("min_p": 2)"), "min_p"},
      {completion_with(R"("repetition_penalty": 0)"), "repetition_penalty"},
      {completion_with(R"("presence_penalty": 3)"), "presence_penalty"},
      {completion_with(R"("frequency_penalty": -3)"), "frequency_penalty"},
      {completion_with(R"("min_tokens": 17)"), "min_tokens"},
      {completion_with(R"("seed": 1.5)"), "seed"},
      {completion_with(R"("seed": 18446744073709551615)"), "seed"},
      {completion_with(R"("n": 0)"), "n"},
      {completion_with(R"("n": 1000000)"), "n"},
      {completion_with(R"("n": 2, "temperature": 0)"), "n"},
      {completion_with(R"("n": 2, "best_of": 3)"), "best_of"},
      {R"({"prompt": ["a", "b"], "n": 200})", "n"},
      {completion_with(R"("stop": 3)"), "stop"},
      {completion_with(R"("stop": ["a", 3])"), "stop"},
      {completion_with(R"("stop": "")"), "stop"},
      {completion_with(R"("stop_token_ids": ["a"])"), "stop_token_ids"},
      {completion_with(R"("stop_token_ids": [1000])"), "stop_token_ids"},
      {completion_with(R"("logit_bias": [])"), "logit_bias"},
      {completion_with(R"("logit_bias": {"+1": 0})"), "logit_bias"},
      {completion_with(R"("logit_bias": {"": 0})"), "logit_bias"},
      {completion_with(R"("logit_bias": {"1": "a"})"), "logit_bias"},
      {completion_with(R"("logit_bias": {"1000": 1})"), "logit_bias"},
      {completion_with(R"("logit_bias": {"99999999999": 1})"), "logit_bias"},
      {completion_with(R"("stream": "yes")"), "stream"},
      {completion_with(R"("stream_options": {"include_usage": true})"), "stream_options"},
      {completion_with(R"("stream": true, "stream_options": 3)"), "stream_options"},
      {completion_with(R"("stream": true, "stream_options": {"include_usage": 1})"),
       "include_usage"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
}

TEST(GenerationRequest, reads_priority_and_cache_salt_within_their_bounds) {
  const std::string longest(1024, 's');
  const GenerationRequest request = completion(
      completion_with(R"("priority": -2147483648, "cache_salt": ")" + longest + R"(")"));
  EXPECT_EQ(request.options.priority, -2147483648);
  EXPECT_EQ(request.options.cache_salt, longest);
  EXPECT_EQ(chat(chat_with(R"("priority": 7, "cache_salt": "a")")).options,
            (engine::RequestOptions{.priority = 7, .cache_salt = "a"}));
  EXPECT_EQ(completion(completion_with(R"("priority": null, "cache_salt": null)")).options,
            engine::RequestOptions{});
  const std::vector<BadBody> bad = {
      {completion_with(R"("priority": 2147483648)"), "priority"},
      {completion_with(R"("priority": 1.5)"), "priority"},
      {completion_with(R"("priority": "1")"), "priority"},
      {completion_with(R"("cache_salt": "")"), "cache_salt"},
      {completion_with(R"("cache_salt": 5)"), "cache_salt"},
      {completion_with(R"("cache_salt": "s)" + longest + R"(")"), "cache_salt"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
}

TEST(GenerationRequest, refuses_what_is_not_supported_by_name) {
  const std::vector<BadBody> bad = {
      {completion_with(R"("logprobs": 0)"), "logprobs"},
      {completion_with(R"("echo": true)"), "echo"},
      {completion_with(R"("suffix": "a")"), "suffix"},
      {completion_with(R"("prompt_logprobs": 1)"), "prompt_logprobs"},
      {completion_with(R"("use_beam_search": true)"), "use_beam_search"},
      {completion_with(R"("guided_json": {})"), "guided_json"},
      {completion_with(R"("structured_outputs": {"regex": "a"})"), "structured_outputs"},
      {completion_with(R"("bad_words": ["a"])"), "bad_words"},
      {completion_with(R"("truncate_prompt_tokens": 5)"), "truncate_prompt_tokens"},
      {completion_with(R"("return_token_ids": true)"), "return_token_ids"},
      {completion_with(R"("response_format": {"type": "json_object"})"), "response_format"},
      {completion_with(R"("response_format": {})"), "response_format"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
  const std::vector<BadBody> bad_chats = {
      {chat_with(R"("logprobs": true)"), "logprobs"},
      {chat_with(R"("top_logprobs": 2)"), "top_logprobs"},
      {chat_with(R"("tools": [{"type": "function"}])"), "tools"},
      {chat_with(R"("tool_choice": "auto")"), "tool_choice"},
      {chat_with(R"("chat_template": "{{ x }}")"), "chat_template"},
      {chat_with(R"("chat_template_kwargs": {"enable_thinking": false})"), "chat_template_kwargs"},
      {chat_with(R"("add_generation_prompt": false)"), "add_generation_prompt"},
      {chat_with(R"("continue_final_message": true)"), "continue_final_message"},
  };
  for (const BadBody& body : bad_chats) expect_refused(chat, body);
}

TEST(GenerationRequest, refuses_bad_messages) {
  for (const char* messages : {
           "null",
           "{}",
           "[]",
           "[3]",
           "[{}]",
           R"([{"content": "a"}])",

           R"([{"role": "user"}])",
           R"([{"role": "user", "content": 3}])",
           R"([{"role": "user", "content": [3]}])",
           R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
           R"([{"role": "user", "content": [{"type": "text"}]}])",
           R"([{"role": "tool", "content": "a"}])",
           R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}])",
       }) {
    expect_refused(chat, {std::string(R"({"messages": )") + messages + "}", "messages"});
  }
  expect_refused(chat, {"{}", "messages"});
  expect_refused(chat, {R"({"messages": [{"role": 3, "content": "a"}]})", "role"});
}

TEST(GenerationRequest, reads_and_refuses_tokenize_and_detokenize) {
  EXPECT_TRUE(parse_tokenize_request(R"({"prompt": "a"})").add_special_tokens);
  EXPECT_FALSE(parse_tokenize_request(R"({"messages": [{"role": "user", "content": "a"}]})")
                   .add_special_tokens);
  expect_refused(parse_tokenize_request, {"{}", "prompt"});
  expect_refused(parse_tokenize_request, {R"({"prompt": ["a"]})", "prompt"});
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 2]})").tokens, (std::vector<int32_t>{1, 2}));
  expect_refused(parse_detokenize_request, {"{}", "tokens"});
  expect_refused(parse_detokenize_request, {R"({"tokens": ["1"]})", "tokens"});
}

}  // namespace
}  // namespace reprise::server
