#include "reprise/server/openai/generation_request.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "reprise/server/http/api_error.h"
#include "reprise/server/openai/sampling_fields.h"
#include "reprise/server/openai/tokenize_request.h"

namespace reprise::server {
namespace {

struct BadBody {
  std::string body;
  std::optional<std::string> param;  // nullopt: the error concerns the whole body
};

template <typename Parse>
void expect_refused(Parse parse, const BadBody& bad) {
  SCOPED_TRACE(bad.body.substr(0, 120));
  try {
    const auto request = parse(bad.body);
    if constexpr (requires { request.params; }) {
      check_sampling(request.params, request.is_chat ? Api::chat : Api::completions, 1000);
    }
    ADD_FAILURE() << "was accepted";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.param(), bad.param) << error.what();
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

GenerationRequest completion(const std::string& body) { return parse_completion_request(body, {}); }
GenerationRequest chat(const std::string& body) { return parse_chat_request(body, {}); }

TokenizeRequest tokenize_body(const std::string& body) { return parse_tokenize_request(body); }

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
         "include_stop_str_in_output": true, "skip_special_tokens": false, "logit_bias": {"12": -100},
         "bad_words": ["b"], "prompt_logprobs": 0, "logprobs": 4, "spaces_between_special_tokens": false,
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
                                      .logprobs = 4,
                                      .prompt_logprobs = 0,
                                      .logit_bias = {{12, -100.0F}},
                                      .allowed_token_ids = {1, 2},
                                      .bad_words = {"b"}}));
}

TEST(GenerationRequest, takes_null_for_absent_and_absent_for_the_defaults) {
  RequestPolicy policy;
  policy.params.temperature = 0.25F;
  policy.params.max_tokens = 99;
  policy.stream_interval = 5;
  const GenerationRequest request = parse_completion_request(
      completion_with(
          R"("temperature": null, "stop": null, "max_tokens": null, "logprobs": null, "n": null,
                         "stream_options": null, "tool_choice": "none", "suffix": null)"),
      policy);
  EXPECT_EQ(request.params.temperature, 0.25F);
  EXPECT_EQ(request.params.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.stream_interval, 5);
  EXPECT_FALSE(request.stream);
  const GenerationRequest chatting = parse_chat_request(chat_with(R"("logprobs": false)"), policy);
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
  EXPECT_EQ(
      request.messages,
      parse_json(
          R"([{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
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
      {completion_with(R"("max_tokens": 1.5)"), "max_tokens"},
      {completion_with(R"("max_tokens": 1e19)"), "max_tokens"},
      {completion_with(R"("max_tokens": "five")"), "max_tokens"},
      {completion_with(R"("max_tokens": "5.5")"), "max_tokens"},
      {completion_with(R"("max_tokens": "5.")"), "max_tokens"},
      {completion_with(R"("max_tokens": "")"), "max_tokens"},
      {completion_with(R"("max_tokens": "99999999999999999999")"), "max_tokens"},
      {completion_with(R"("max_tokens": true)"), "max_tokens"},
      {completion_with(R"("max_tokens": 99999999999)"), "max_tokens"},
      {completion_with(R"("max_tokens": 99999999999999999999)"), "max_tokens"},
      {completion_with(R"("temperature": "hot")"), "temperature"},
      {completion_with(R"("temperature": "inf")"), "temperature"},
      {completion_with(R"("temperature": "0.5x")"), "temperature"},
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
      {completion_with(R"("n": 129)"), "n"},
      {completion_with(R"("n": 2, "best_of": 3)"), "best_of"},
      {R"({"prompt": ["a", "b", "c"], "n": 100})", "n"},
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
      {completion_with(R"("bad_words": "a")"), "bad_words"},
      {completion_with(R"("bad_words": [""])"), "bad_words"},
      {completion_with(R"("logprobs": -1)"), "logprobs"},
      {completion_with(R"("logprobs": 21)"), "logprobs"},
      {completion_with(R"("logprobs": true)"), "logprobs"},
      {completion_with(R"("prompt_logprobs": -2)"), "prompt_logprobs"},
      {completion_with(R"("prompt_logprobs": 1, "stream": true)"), "prompt_logprobs"},
      {completion_with(R"("truncate_prompt_tokens": 0)"), "truncate_prompt_tokens"},
      {completion_with(R"("truncation_side": "middle")"), "truncation_side"},
      {completion_with(R"("request_id": "a b")"), "request_id"},
      {completion_with(R"("request_id": "")"), "request_id"},
      {completion_with(R"("echo": 2)"), "echo"},
      {completion_with(R"("stream": "maybe")"), "stream"},
      {completion_with(R"("stream_interval": 0)"), "stream_interval"},
      {completion_with(R"("logprob_token_ids": [1])"), "logprob_token_ids"},
      {completion_with(R"("logprobs": 0, "logprob_token_ids": [1000])"), "logprob_token_ids"},
      {completion_with(R"("spaces_between_special_tokens": "maybe")"),
       "spaces_between_special_tokens"},
      {completion_with(R"("stream_options": {"include_usage": true})"), "stream_options"},
      {completion_with(R"("stream": true, "stream_options": 3)"), "stream_options"},
      {completion_with(R"("stream": true, "stream_options": {"include_usage": 2})"),
       "include_usage"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
}

TEST(GenerationRequest, reads_priority_and_cache_salt_within_their_bounds) {
  const std::string longest(1024, 's');
  const GenerationRequest request =
      completion(completion_with(R"("priority": -2147483648, "cache_salt": ")" + longest + R"(")"));
  EXPECT_EQ(request.options.priority, -2147483648);
  EXPECT_EQ(request.options.cache_salt, longest);
  EXPECT_EQ(chat(chat_with(R"("priority": 7, "cache_salt": "a")")).options,
            (scheduler::RequestOptions{.priority = 7, .cache_salt = "a"}));
  EXPECT_EQ(completion(completion_with(R"("priority": null, "cache_salt": null)")).options,
            scheduler::RequestOptions{});
  const std::vector<BadBody> bad = {
      {completion_with(R"("priority": 2147483648)"), "priority"},
      {completion_with(R"("priority": 1.5)"), "priority"},
      {completion_with(R"("priority": "one")"), "priority"},
      {completion_with(R"("cache_salt": "")"), "cache_salt"},
      {completion_with(R"("cache_salt": 5)"), "cache_salt"},
      {completion_with(R"("cache_salt": "s)" + longest + R"(")"), "cache_salt"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
}

TEST(GenerationRequest, reads_numbers_and_switches_as_pydantic_does) {
  const GenerationRequest request = completion(completion_with(
      R"("max_tokens": 5.0, "min_tokens": "2", "top_k": "+7.00", "seed": 1e2, "temperature": "0.5",
         "top_p": " 1 ", "echo": 1, "ignore_eos": "yes", "stop_token_ids": [4.0],
         "logit_bias": {"3": "-2.5", "4": 1000, "5": -1e9})"));
  EXPECT_EQ(request.params.max_tokens, 5);
  EXPECT_EQ(request.params.min_tokens, 2);
  EXPECT_EQ(request.params.top_k, 7);
  EXPECT_EQ(request.params.seed, 100);
  EXPECT_EQ(request.params.temperature, 0.5F);
  EXPECT_EQ(request.params.top_p, 1.0F);
  EXPECT_TRUE(request.echo && request.params.ignore_eos);
  EXPECT_EQ(request.params.stop_token_ids, std::vector<int32_t>{4});
  EXPECT_EQ(request.params.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{3, -2.5F}, {4, 100.0F}, {5, -100.0F}}))
      << "clamped as vLLM's server does";
  EXPECT_EQ(completion(R"({"prompt": [1.0, 2]})").prompts,
            (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(completion(completion_with(R"("seed": -1)")).params.seed, std::nullopt);
  EXPECT_EQ(completion(completion_with(R"("model": "")")).model, std::nullopt);
}

TEST(GenerationRequest, names_every_field_that_nothing_reads) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(chat(chat_with(R"("user": "u", "metadata": {"a": 1}, "store": false, "foo": null,
                              "temperature": 1)"))
                .unused_fields,
            (Names{"user", "metadata"}));
  EXPECT_EQ(completion(completion_with(
                           R"("messages": [], "store": true, "stream": true,
                              "stream_options": {"include_usage": true, "a": 1},
                              "spaces_between_special_tokens": true,
                              "response_format": {"type": "json_schema", "extra": 1,
                                "json_schema": {"name": "n", "strict": true, "schema": {"b": 1}}})"))
                .unused_fields,
            (Names{"messages",
                   "store",
                   "spaces_between_special_tokens",
                   "stream_options.a",
                   "response_format.extra",
                   "response_format.json_schema.name"}));
  EXPECT_EQ(chat(R"({"messages": [
                       {"role": "user", "weight": 1, "content": [
                         {"type": "text", "text": "a", "cache_control": {}}, "b"]},
                       {"role": "assistant", "content": "", "weight": 2}]})")
                .unused_fields,
            (Names{"messages[].weight", "messages[].content[].cache_control"}));
  std::string many = R"("a, b\n": 1, ")" + std::string(100, 'n') + R"(": 1)";
  for (int i = 0; i < 20; ++i) many += R"(, "f)" + std::to_string(i) + R"(": 1)";
  const Names names = completion(completion_with(many)).unused_fields;
  ASSERT_EQ(names.size(), kMaxUnusedFields + 1);
  EXPECT_EQ(names[0], "a??b?") << "nothing that could end a header";
  EXPECT_EQ(names[1], std::string(64, 'n') + "...");
  EXPECT_EQ(names.back(), "...");
  EXPECT_EQ(parse_tokenize_request(R"({"prompt": "a", "messages": [], "user": "u"})").unused_fields,
            (Names{"messages", "user"}));
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1], "user": "u"})").unused_fields,
            (Names{"user"}));
}

TEST(GenerationRequest, takes_fields_of_other_servers_that_ask_for_what_is_done_anyway) {
  EXPECT_EQ(chat(chat_with(R"("modalities": ["text"], "function_call": "none", "functions": [],
                              "vllm_xargs": {}, "thinking_token_budget": -1, "suffix": "",
                              "mm_processor_kwargs": {}, "use_beam_search": false,
                              "best_of": 1, "repetition_detection": {})"))
                .unused_fields,
            std::vector<std::string>{});
}

/// The messages, with the parts of each content joined to one text.
Json with_whole_texts(Json messages) {
  for (Json& message : messages) {
    if (message["content"].is_string()) continue;
    std::string text;
    for (const Json& part : message["content"]) {
      text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
    }
    message["content"] = text;
  }
  return messages;
}

TEST(GenerationRequest, reads_messages_in_the_shapes_of_openais_and_vllms_clients) {
  const GenerationRequest request = chat(
      R"({"messages": [
            {"role": "user", "content": ["a", {"type": "input_text", "text": "b"},
                                         {"type": "text", "text": null}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "c"},
                                              {"type": "refusal", "refusal": "d"}]},
            {"role": "assistant", "content": null, "refusal": "no"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "tool", "tool_call_id": "t", "content": null},
            {"role": "tool", "tool_call_id": "t"},
            {"role": "critic", "content": "e"}]})");
  EXPECT_EQ(with_whole_texts(request.messages),
            parse_json(R"([{"role": "user", "content": "a\nb"},
                           {"role": "assistant", "content": "c\nd"},
                           {"role": "assistant", "content": "no"},
                           {"role": "assistant", "content": "", "tool_calls": [
                             {"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
                           {"role": "function", "content": "1", "name": "f"},
                           {"role": "tool", "content": "", "tool_call_id": "t"},
                           {"role": "tool", "content": "", "tool_call_id": "t"},
                           {"role": "critic", "content": "e"}])",
                       "test"));
  EXPECT_EQ(request.unused_fields, std::vector<std::string>{});
}

TEST(GenerationRequest, shows_the_model_only_the_tools_that_the_choice_allows) {
  const std::string tools =
      R"("tools": [{"function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}],
         "tool_choice": {"type": "allowed_tools", "allowed_tools": )";
  const auto allowed = [&tools](const char* what) { return chat_with(tools + what + "}"); };
  const GenerationRequest request =
      chat(allowed(R"({"mode": "auto", "tools": [{"function": {"name": "g"}}]})"));
  EXPECT_EQ(request.tools.choice, ToolUse::Choice::automatic);
  EXPECT_EQ(request.tools.tools,
            parse_json(R"([{"type": "function", "function": {"name": "g"}}])", "test"));
  EXPECT_EQ(request.chat_template.tools, request.tools.tools);
  const GenerationRequest must = chat(allowed(
      R"({"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]})"));
  EXPECT_EQ(must.tools.choice, ToolUse::Choice::required);
  EXPECT_EQ(must.asked_output->spec.text.find(R"("g")"), std::string::npos);
  for (const char* bad : {R"({"mode": "some", "tools": [{"function": {"name": "g"}}]})",
                          R"({"mode": "auto", "tools": []})",
                          R"({"mode": "auto", "tools": [{"function": {"name": "h"}}]})",
                          "3"}) {
    expect_refused(chat, {allowed(bad), "tool_choice"});
  }
}

TEST(GenerationRequest, closes_objects_of_a_schema_when_asked) {
  const GenerationRequest request = completion(completion_with(
      R"("structured_outputs": {"disable_additional_properties": true, "json":
           {"properties": {"a": {"type": "object", "properties": {}}}, "items": {"type": "object"}}})"));
  EXPECT_EQ(
      parse_json(request.asked_output->spec.text, "test"),
      parse_json(
          R"({"properties": {"a": {"type": "object", "properties": {}, "additionalProperties": false}},
              "items": {"type": "object"}, "additionalProperties": false})",
          "test"));
}

TEST(GenerationRequest, refuses_what_is_not_supported_by_name) {
  const std::vector<BadBody> bad = {
      {completion_with(R"("mm_processor_kwargs": {"a": 1})"), "mm_processor_kwargs"},
      {completion_with(R"("thinking_token_budget": 5)"), "thinking_token_budget"},
      {completion_with(R"("vllm_xargs": {"a": 1})"), "vllm_xargs"},
      {completion_with(R"("suffix": "a")"), "suffix"},
      {completion_with(R"("use_beam_search": true)"), "use_beam_search"},
      {completion_with(R"("guided_json": 3)"), "guided_json"},
      {completion_with(R"("structured_outputs": {"regex": "a", "choice": ["b"]})"),
       "structured_outputs"},
      {completion_with(R"("response_format": {"type": "json_schema"})"), "response_format"},
      {completion_with(R"("response_format": {})"), "response_format"},
  };
  for (const BadBody& body : bad) expect_refused(completion, body);
  const std::vector<BadBody> bad_chats = {
      {chat_with(R"("modalities": ["text", "audio"])"), "modalities"},
      {chat_with(R"("function_call": "auto")"), "function_call"},
      {chat_with(R"("tools": [{"type": "custom", "custom": {"name": "c"}}])"), "tools"},
      {chat_with(R"("logprobs": 3)"), "logprobs"},
      {chat_with(R"("top_logprobs": 2)"), "top_logprobs"},
      {chat_with(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs"},
      {chat_with(R"("logprobs": true, "top_logprobs": -2)"), "top_logprobs"},
      {chat_with(R"("tools": [{"type": "function"}])"), "tools"},
      {chat_with(R"("tool_choice": "auto")"), "tool_choice"},
      {chat_with(R"("chat_template": "{{ x }}")"), "chat_template"},
      {chat_with(R"("chat_template_kwargs": {"tokenize": true})"), "chat_template_kwargs"},
      {chat_with(R"("chat_template_kwargs": [1])"), "chat_template_kwargs"},
      {chat_with(R"("documents": ["a"])"), "documents"},
      {chat_with(R"("reasoning_effort": "very")"), "reasoning_effort"},
      {chat_with(R"("reasoning_effort": 3)"), "reasoning_effort"},
      {chat_with(R"("continue_final_message": true)"), "continue_final_message"},
  };
  for (const BadBody& body : bad_chats) expect_refused(chat, body);
}

TEST(GenerationRequest, reads_what_is_shown_of_prompts_and_tokens) {
  const GenerationRequest echo = completion(completion_with(
      R"("echo": true, "logprobs": 2, "max_tokens": 0, "return_token_ids": true, "request_id": "r-1",
         "return_tokens_as_token_ids": true, "truncate_prompt_tokens": 7, "truncation_side": "right")"));
  EXPECT_TRUE(echo.echo && echo.echo_only && echo.return_token_ids);
  EXPECT_TRUE(echo.return_tokens_as_token_ids);
  EXPECT_EQ(echo.params.max_tokens, 1) << "an engine that computes nothing has no logits";
  EXPECT_EQ(echo.params.prompt_logprobs, 2);
  EXPECT_FALSE(echo.return_prompt_logprobs) << "not as a field of their own";
  EXPECT_EQ(echo.request_id, "r-1");
  EXPECT_EQ(echo.truncation, (Truncation{.num_tokens = 7, .keeps_end = false}));
  const GenerationRequest shown = chat(chat_with(
      R"("logprobs": true, "prompt_logprobs": 3, "add_generation_prompt": false, "documents": [{}],
         "continue_final_message": true, "chat_template_kwargs": {"enable_thinking": false})"));
  EXPECT_EQ(shown.params.logprobs, 0);
  EXPECT_TRUE(shown.return_prompt_logprobs);
  EXPECT_FALSE(shown.chat_template.add_generation_prompt);
  EXPECT_TRUE(shown.chat_template.continue_final_message);
  EXPECT_EQ(shown.chat_template.kwargs, (Json{{"enable_thinking", false}}));
  EXPECT_EQ(shown.role(), "user");
  EXPECT_EQ(chat(chat_with(R"("n": 2)")).role(), "assistant");
}

TEST(GenerationRequest, passes_the_reasoning_effort_to_the_template) {
  const auto kwargs = [](const char* fields) {
    const RequestPolicy policy = {.default_chat_template_kwargs = {{"reasoning_effort", "low"}}};
    return parse_chat_request(chat_with(fields), policy).chat_template.kwargs;
  };
  EXPECT_EQ(kwargs(R"("reasoning_effort": "high")"), (Json{{"reasoning_effort", "high"}}));
  EXPECT_EQ(kwargs(R"("reasoning_effort": null)"), (Json{{"reasoning_effort", "low"}}));
  EXPECT_EQ(kwargs(R"("reasoning_effort": "high",
                      "chat_template_kwargs": {"reasoning_effort": "medium"})"),
            (Json{{"reasoning_effort", "high"}}))
      << "as in vLLM, the field outweighs the variable";
}

TEST(GenerationRequest, follows_the_policy_where_requests_do_not_say) {
  const RequestPolicy policy = {.default_chat_template_kwargs = {{"a", 1}, {"b", 2}},
                                .trust_request_chat_template = true,
                                .exclude_tools_when_tool_choice_none = true,
                                .enable_force_include_usage = true,
                                .return_tokens_as_token_ids = true,
                                .response_role = "model"};
  const char* const kTools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const GenerationRequest quiet = parse_chat_request(
      chat_with(std::string(kTools) + R"(, "tool_choice": "none", "stream": true)"), policy);
  EXPECT_EQ(quiet.chat_template.kwargs, policy.default_chat_template_kwargs);
  EXPECT_FALSE(quiet.chat_template.tools || quiet.chat_template.chat_template);
  EXPECT_TRUE(quiet.include_usage && quiet.return_tokens_as_token_ids);
  EXPECT_FALSE(quiet.continuous_usage);
  EXPECT_EQ(quiet.role(), "model");
  const GenerationRequest loud = parse_chat_request(
      chat_with(std::string(kTools) + R"(, "chat_template": "{{ x }}", "stream": true,
        "chat_template_kwargs": {"b": 3}, "return_tokens_as_token_ids": false,
        "stream_options": {"include_usage": false, "continuous_usage_stats": true})"),
      policy);
  EXPECT_EQ(loud.chat_template.kwargs, (Json{{"a", 1}, {"b", 3}}));
  EXPECT_EQ(loud.chat_template.chat_template, "{{ x }}");
  EXPECT_TRUE(loud.chat_template.tools.has_value()) << "the choice is auto";
  EXPECT_TRUE(loud.include_usage && loud.continuous_usage);
  EXPECT_FALSE(loud.return_tokens_as_token_ids);
  const GenerationRequest shown =
      parse_chat_request(chat_with(std::string(kTools) + R"(, "tool_choice": "none")"), {});
  EXPECT_TRUE(shown.chat_template.tools.has_value()) << "as vLLM by default";
}

TEST(GenerationRequest, the_policy_can_keep_blanks_out_of_json) {
  const auto allows_any = [](const RequestPolicy& policy) {
    return parse_chat_request(chat_with(R"("response_format": {"type": "json_object"})"), policy)
        .asked_output->spec.any_whitespace;
  };
  EXPECT_TRUE(allows_any({}));
  EXPECT_FALSE(allows_any({.disable_any_whitespace = true}));
}

TEST(GenerationRequest, refuses_bad_messages_by_their_place) {
  const std::vector<BadBody> bad = {
      {"null", "messages"},
      {"{}", "messages"},
      {"[]", "messages"},
      {"[3]", "messages[0]"},
      {"[null]", "messages[0]"},
      {"[{}]", "messages[0].role"},
      {R"([{"content": "a"}])", "messages[0].role"},
      {R"([{"role": 3, "content": "a"}])", "messages[0].role"},
      {R"([{"role": "", "content": "a"}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": "a"}, {"role": "user", "content": null}])",
       "messages[1].content"},
      {R"([{"role": "user", "content": 3}])", "messages[0].content"},
      {R"([{"role": "user", "content": [3]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])",
       "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"text": "a"}]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 3}]}])", "text"},
      {R"([{"role": "assistant", "audio": {"id": "1"}}])", "messages[0].audio"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "custom", "function": {"name": "f"}}]}])",
       "messages[0].tool_calls"},
      {R"([{"role": "assistant", "function_call": {"arguments": "{}"}}])",
       "messages[0].function_call"},
      {R"([{"role": "user", "content": "", "tool_calls": [{}]}])", "messages[0].tool_calls"},
      {R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}])",
       "messages[0].tool_calls"},
  };
  for (const BadBody& body : bad) {
    expect_refused(chat, {R"({"messages": )" + body.body + "}", body.param});
  }
  expect_refused(chat, {"{}", "messages"});
}

TEST(GenerationRequest, reads_the_reasoning_of_earlier_answers) {
  for (const std::string name : {"reasoning", "reasoning_content", "thinking"}) {
    const Json answer = {{"role", "assistant"}, {"content", "b"}, {name, "why"}};
    const Json messages = chat(Json{{"messages", Json::array({answer})}}.dump()).messages;
    EXPECT_EQ(messages[0]["reasoning"], "why") << name;
    expect_refused(
        chat,
        {R"({"messages": [{"role": "assistant", "content": "", ")" + name + R"(": 3}]})", name});
  }
  for (const char* part : {R"({"type": "thinking", "thinking": "why"})",
                           R"({"type": "reasoning", "reasoning": "why"})",
                           R"({"type": "reasoning", "text": "why"})"}) {
    const Json messages =
        chat(std::string(R"({"messages": [{"role": "assistant", "content": [)") + part + "]}]}")
            .messages;
    EXPECT_EQ(messages[0]["content"], Json::parse(R"([{"type": "thinking", "thinking": "why"}])"))
        << part;
  }
  expect_refused(chat,
                 {R"({"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]})",
                  "messages[0].content[0]"});
}

TEST(GenerationRequest, tokenize_reads_the_prompt_of_a_chat_as_the_chat_does) {
  const std::string body = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant",
      "content": [{"type": "thinking", "thinking": "t"}], "reasoning": "r"}],
      "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto",
      "documents": [{"text": "d"}], "chat_template_kwargs": {"flavour": "sweet"},
      "reasoning_effort": "low", "add_generation_prompt": false, "continue_final_message": true})";
  const GenerationRequest chatted = chat(body);
  const TokenizeRequest tokenized = parse_tokenize_request(body);
  EXPECT_EQ(tokenized.messages, chatted.messages);
  const api::ChatTemplateOptions& a = tokenized.chat_template;
  const api::ChatTemplateOptions& b = chatted.chat_template;
  EXPECT_EQ(a.tools, b.tools);
  EXPECT_TRUE(a.tools.has_value());
  EXPECT_EQ(a.documents, b.documents);
  EXPECT_EQ(a.kwargs, b.kwargs);
  EXPECT_EQ(a.add_generation_prompt, b.add_generation_prompt);
  EXPECT_EQ(a.continue_final_message, b.continue_final_message);
  expect_refused(tokenize_body,
                 {R"({"messages": [{"role": "user", "content": "a"}], "tools": [3]})", "tools"});
}

TEST(GenerationRequest, reads_and_refuses_tokenize_and_detokenize) {
  EXPECT_TRUE(parse_tokenize_request(R"({"prompt": "a"})").add_special_tokens);
  EXPECT_FALSE(parse_tokenize_request(R"({"messages": [{"role": "user", "content": "a"}]})")
                   .add_special_tokens);
  expect_refused(tokenize_body, {"{}", "prompt"});
  expect_refused(tokenize_body, {R"({"prompt": ["a"]})", "prompt"});
  EXPECT_EQ(parse_detokenize_request(R"({"tokens": [1, 2]})").tokens, (std::vector<int32_t>{1, 2}));
  expect_refused(parse_detokenize_request, {"{}", "tokens"});
  expect_refused(parse_detokenize_request, {R"({"tokens": ["1"]})", "tokens"});
}

}  // namespace
}  // namespace reprise::server
