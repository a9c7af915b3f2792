#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reprise/server/dialects/anthropic_answer.h"
#include "reprise/server/dialects/anthropic_request.h"
#include "reprise/server/dialects/ollama_answer.h"
#include "reprise/server/dialects/ollama_request.h"
#include "reprise/server/dialects/response_store.h"
#include "reprise/server/dialects/responses_answer.h"
#include "reprise/server/dialects/responses_request.h"
#include "reprise/server/dialects/translated_chat.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

using ::testing::ElementsAre;

Json parse(std::string_view text) { return Json::parse(text); }

/// The JSON of each event of a stream, or of each line of an answer.
std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  size_t begin = 0;
  while (begin < stream.size()) {
    const size_t end = stream.find('\n', begin);
    std::string line = stream.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("data: ")) line.erase(0, 6);
    if (line.starts_with('{')) events.push_back(Json::parse(line));
  }
  return events;
}

std::vector<std::string> types_of(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) types.push_back(event["type"].get<std::string>());
  return types;
}

Json chunk_with(const Json& delta, const Json& finish = nullptr) {
  return {{"id", "chatcmpl-1"},
          {"created", 7},
          {"model", "tiny"},
          {"choices",
           Json::array({{{"index", 0},
                         {"delta", delta},
                         {"logprobs", nullptr},
                         {"finish_reason", finish},
                         {"stop_reason", nullptr}}})},
          {"usage",
           {{"prompt_tokens", 10},
            {"completion_tokens", 4},
            {"total_tokens", 14},
            {"prompt_tokens_details", {{"cached_tokens", 8}}},
            {"completion_tokens_details", {{"reasoning_tokens", 2}}}}}};
}

/// The chunks of a streamed answer that reasons, speaks and calls two tools.
std::vector<Json> chunks_of_an_answer() {
  return {chunk_with({{"role", "assistant"}, {"content", ""}}),
          chunk_with({{"reasoning", "hm"}, {"reasoning_content", "hm"}}),
          chunk_with({{"reasoning", ", so"}, {"content", "Let me"}}),
          chunk_with({{"content", " see."}}),
          chunk_with(parse(R"({"tool_calls": [{"index": 0, "id": "a", "type": "function",
                              "function": {"name": "look", "arguments": "{\"x\":"}}]})")),
          chunk_with(parse(R"({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}},
                              {"index": 1, "id": "b", "type": "function",
                               "function": {"name": "patch", "arguments": "{\"input\":\"+y\"}"}}]})")),
          chunk_with(Json::object(), "tool_calls")};
}

/// The same answer as one object.
Json completion_of_an_answer() {
  Json completion = chunk_with(nullptr, "tool_calls");
  completion["choices"][0].erase("delta");
  completion["choices"][0]["message"] = parse(R"({
    "role": "assistant", "content": "Let me see.", "reasoning": "hm, so",
    "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"x\":1}"}},
      {"id": "b", "type": "function", "function": {"name": "patch", "arguments": "{\"input\":\"+y\"}"}}]})");
  return completion;
}

std::vector<Json> stream(ChatTranslator& translator) {
  std::string text;
  for (const Json& chunk : chunks_of_an_answer()) text += translator.chunk(chunk);
  return events_of(text + translator.end());
}

/// Puts a message together from its events, as Anthropic's client does.
Json message_of(const std::vector<Json>& events) {
  Json message;
  std::string input;
  for (const Json& event : events) {
    const auto& type = event["type"].get_ref<const std::string&>();
    if (type == "message_start") message = event["message"];
    if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"] = event["usage"];
    }
    if (type == "content_block_start") message["content"].push_back(event["content_block"]);
    if (type == "content_block_start") input.clear();
    if (type == "content_block_delta") {
      const Json& delta = event["delta"];
      Json& block = message["content"].at(event["index"].get<size_t>());
      for (const char* name : {"text", "thinking"}) {
        if (delta.contains(name)) block[name].get_ref<std::string&>() += delta[name];
      }
      if (delta.contains("partial_json")) input += delta["partial_json"];
    }
    if (type == "content_block_stop" && !input.empty()) {
      message["content"].back()["input"] = Json::parse(input);
    }
  }
  return message;
}

TEST(AnthropicAnswer, is_the_same_streamed_and_whole) {
  const Json whole = make_anthropic_answer()->whole(completion_of_an_answer());
  EXPECT_EQ(whole["content"], parse(R"([
    {"type": "thinking", "thinking": "hm, so", "signature": ""},
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}},
    {"type": "tool_use", "id": "b", "name": "patch", "input": {"input": "+y"}}])"));
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  EXPECT_EQ(whole["usage"]["input_tokens"], 2);
  EXPECT_EQ(whole["usage"]["cache_read_input_tokens"], 8);
  EXPECT_EQ(message_of(stream(*make_anthropic_answer())), whole);
}

TEST(AnthropicAnswer, says_why_it_ended) {
  const auto reason = [](const Json& finish, const Json& stop) {
    Json completion = completion_of_an_answer();
    Json& choice = completion["choices"][0];
    choice["message"].erase("tool_calls");
    choice["finish_reason"] = finish;
    choice["stop_reason"] = stop;
    const Json message = make_anthropic_answer()->whole(completion);
    return std::pair(message["stop_reason"].get<std::string>(), message["stop_sequence"]);
  };
  EXPECT_EQ(reason("stop", nullptr), std::pair(std::string("end_turn"), Json(nullptr)));
  EXPECT_EQ(reason("stop", "END"), std::pair(std::string("stop_sequence"), Json("END")));
  EXPECT_EQ(reason("stop", 5), std::pair(std::string("end_turn"), Json(nullptr)));
  EXPECT_EQ(reason("length", nullptr), std::pair(std::string("max_tokens"), Json(nullptr)));
}

TEST(AnthropicAnswer, gives_a_tool_no_made_up_input) {
  Json completion = completion_of_an_answer();
  Json& call = completion["choices"][0]["message"]["tool_calls"][0];
  call["function"]["arguments"] = R"({"x": )";  // cut off
  EXPECT_EQ(make_anthropic_answer()->whole(completion)["content"][2]["input"],
            Json({{"partial_json", R"({"x": )"}}));
}

TEST(AnthropicAnswer, names_errors_as_its_api_does) {
  const HttpResponse error = anthropic_error(error_response(ApiError(404, "No such model.")));
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(parse(error.body), parse(R"({"type": "error", "error": {
    "type": "not_found_error", "message": "No such model."}})"));
}

TEST(AnthropicRequest, gives_results_of_tools_messages_of_their_own_in_their_order) {
  const TranslatedChat chat = read_anthropic_request(parse(R"({
    "max_tokens": 5, "system": "Be brief.", "messages": [
      {"role": "user", "content": "Hi"},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "Look:"},
        {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}}]},
      {"role": "user", "content": [
        {"type": "text", "text": "before"},
        {"type": "tool_result", "tool_use_id": "a", "content": "7", "is_error": true},
        {"type": "text", "text": "after"}]}]})"));
  EXPECT_EQ(chat.body["messages"], parse(R"([
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "text", "text": "Look:"}],
     "tool_calls": [{"id": "a", "type": "function",
                     "function": {"name": "look", "arguments": "{\"x\":1}"}}],
     "reasoning": "hm"},
    {"role": "user", "content": [{"type": "text", "text": "before"}]},
    {"role": "tool", "content": "7", "tool_call_id": "a"},
    {"role": "user", "content": [{"type": "text", "text": "after"}]}])"));
  EXPECT_THAT(chat.unused_fields, ElementsAre("messages[].content[].is_error"));
}

TEST(AnthropicRequest, leaves_out_the_line_about_bills_and_says_so) {
  const TranslatedChat chat = read_anthropic_request(parse(R"({
    "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], "system": [
      {"type": "text", "text": "x-anthropic-billing-header: cch=1;"},
      {"type": "text", "text": "x-anthropic-billing-header: cch=2;\nYou help."}]})"));
  EXPECT_EQ(chat.body["messages"][0]["content"],
            parse(R"([{"type": "text", "text": "You help."}])"));
  EXPECT_THAT(chat.unused_fields, ElementsAre("system[].x-anthropic-billing-header"));
}

std::vector<std::string> tool_names(const Json& chat) {
  std::vector<std::string> names;
  for (const Json& tool : chat.value("tools", Json::array())) {
    names.push_back(tool["function"]["name"].get<std::string>());
  }
  return names;
}

/// Tools with defer_loading, as Claude Code 2.1 sends them: the model is told of them only after a
/// search has found them.
constexpr std::string_view kToolsThatWait = R"([
  {"name": "ToolSearch", "input_schema": {"type": "object"}},
  {"name": "Cron", "input_schema": {"type": "object"}, "defer_loading": true},
  {"name": "Wiki", "input_schema": {"type": "object"}, "defer_loading": true}])";

TEST(AnthropicRequest, tells_the_model_of_a_waiting_tool_once_it_was_found) {
  Json body = {{"max_tokens", 5}, {"tools", parse(kToolsThatWait)}};
  body["messages"] = parse(R"([{"role": "user", "content": "Hi"}])");
  EXPECT_THAT(tool_names(read_anthropic_request(body).body), ElementsAre("ToolSearch"));
  body["messages"].push_back(parse(R"({"role": "assistant", "content": [
    {"type": "tool_use", "id": "a", "name": "ToolSearch", "input": {}}]})"));
  body["messages"].push_back(parse(R"({"role": "user", "content": [
    {"type": "tool_result", "tool_use_id": "a", "content": [
      {"type": "tool_reference", "tool_name": "Wiki"}]}]})"));
  const TranslatedChat chat = read_anthropic_request(body);
  EXPECT_THAT(tool_names(chat.body), ElementsAre("ToolSearch", "Wiki"));
  EXPECT_EQ(chat.body["messages"][2]["content"], parse(R"([{"type": "text", "text": "Wiki"}])"));
  EXPECT_TRUE(chat.unused_fields.empty());
}

TEST(AnthropicRequest, adds_and_removes_tools_where_the_conversation_says_so) {
  const TranslatedChat chat = read_anthropic_request(parse(R"({
    "max_tokens": 5, "tools": [{"name": "old"}, {"name": "kept"}, {"name": "late", "defer_loading": true}],
    "messages": [
      {"role": "user", "content": "Hi"},
      {"role": "system", "content": [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "old"}},
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "late"}},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {
          "name": "new", "input_schema": {"type": "object"}}}}]}]})"));
  EXPECT_THAT(tool_names(chat.body), ElementsAre("kept", "late", "new"));
  EXPECT_EQ(chat.body["messages"].size(), 1U);
  EXPECT_THROW((void)read_anthropic_request(parse(R"({"max_tokens": 5, "messages": [
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "x"}}]}]})")),
               ApiError);
}

TEST(AnthropicRequest, an_image_that_a_tool_returned_does_not_end_the_session) {
  const auto read = [](std::string_view block) {
    return read_anthropic_request(
               {{"max_tokens", 5},
                {"messages",
                 Json::array({{{"role", "user"}, {"content", Json::array({parse(block)})}}})}})
        .body;
  };
  constexpr std::string_view kImage =
      R"({"type": "image", "source": {"type": "base64", "data": "x"}})";
  const Json chat = read(R"({"type": "tool_result", "tool_use_id": "a", "content": [)" +
                         std::string(kImage) + "]}");
  EXPECT_EQ(chat["messages"][0]["content"][0]["text"], "[An image, which this model cannot read.]");
  EXPECT_THROW((void)read(kImage), ApiError);
}

ResponsesShape shape_with_a_custom_tool() {
  ResponsesShape shape;
  shape.custom_tools = {"patch"};
  return shape;
}

TEST(ResponsesAnswer, has_an_item_for_reasoning_for_text_and_for_each_call) {
  const std::vector<Json> events = stream(*make_responses_answer(shape_with_a_custom_tool()));
  const std::vector<std::string> types = types_of(events);
  EXPECT_EQ(types.front(), "response.created");
  EXPECT_EQ(types.back(), "response.completed");
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const Json& response = events.back()["response"];
  const Json& output = response["output"];
  ASSERT_EQ(output.size(), 4U);
  EXPECT_EQ(output[0]["content"], parse(R"([{"type": "reasoning_text", "text": "hm, so"}])"));
  EXPECT_EQ(output[1]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["arguments"], R"({"x":1})");
  EXPECT_EQ(output[3]["type"], "custom_tool_call");
  EXPECT_EQ(output[3]["input"], "+y");
  EXPECT_EQ(response["usage"], parse(R"({
    "input_tokens": 10, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 14})"));
}

TEST(ResponsesAnswer, is_the_same_streamed_and_whole_but_for_its_ids) {
  const auto without_ids = [](Json response) {
    response.erase("id");
    for (Json& item : response["output"]) item.erase("id");
    return response;
  };
  const Json streamed =
      stream(*make_responses_answer(shape_with_a_custom_tool())).back()["response"];
  const Json whole =
      make_responses_answer(shape_with_a_custom_tool())->whole(completion_of_an_answer());
  EXPECT_EQ(without_ids(streamed), without_ids(whole));
  EXPECT_NE(streamed["id"], whole["id"]);
}

TEST(ResponsesAnswer, is_kept_with_the_conversation_unless_the_request_says_no) {
  const auto store = std::make_shared<ResponseStore>();
  const TranslatedChat first =
      read_responses_request(parse(R"({"input": "Hi", "instructions": "Be brief."})"), store);
  const Json kept = first.answer->whole(completion_of_an_answer());
  const TranslatedChat second = read_responses_request(
      {{"input",
        Json::array({{{"type", "function_call_output"}, {"call_id", "a"}, {"output", "7"}}})},
       {"previous_response_id", kept["id"]}},
      store);
  EXPECT_EQ(second.body["messages"], parse(R"([
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Let me see.", "reasoning": "hm, so", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"x\":1}"}},
      {"id": "b", "type": "function", "function": {"name": "patch", "arguments": "{\"input\":\"+y\"}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "7"}])"));
  const TranslatedChat unkept =
      read_responses_request(parse(R"({"input": "Hi", "store": false})"), store);
  const std::string id = unkept.answer->whole(completion_of_an_answer())["id"];
  EXPECT_FALSE(store->response(id).has_value());
}

TEST(ResponsesRequest, makes_one_message_of_the_items_of_one_answer) {
  const TranslatedChat chat =
      read_responses_request(parse(R"({"instructions": "Be brief.", "input": [
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look:"}]},
    {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "7"},
    {"type": "message", "role": "assistant", "content": "Seven."},
    {"type": "message", "role": "assistant", "content": "Or eight."}]})"),
                             std::make_shared<ResponseStore>());
  EXPECT_EQ(chat.body["messages"], parse(R"([
    {"role": "system", "content": "Be brief.\n\nBe kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Look:", "reasoning": "hm",
     "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "7"},
    {"role": "assistant", "content": "Seven."},
    {"role": "assistant", "content": "Or eight."}])"));
}

TEST(ResponsesRequest, leaves_out_tools_that_openai_runs_and_says_so) {
  const TranslatedChat chat = read_responses_request(parse(R"({"input": "Hi", "tools": [
    {"type": "web_search"}, {"type": "function", "name": "look"}]})"),
                                                     std::make_shared<ResponseStore>());
  EXPECT_EQ(chat.body["tools"], parse(R"([{"type": "function", "function": {"name": "look"}}])"));
  EXPECT_THAT(chat.unused_fields, ElementsAre("tools[].web_search"));
}

/// A tool of a namespace, as Codex 0.163 sends it.
constexpr std::string_view kNamespace =
    R"({"type": "namespace", "name": "agents", "description": "Sub-agents.",
  "tools": [{"type": "function", "name": "spawn", "description": "One.", "strict": false,
             "parameters": {"type": "object"}},
            {"type": "custom", "name": "say"}]})";

TEST(ResponsesRequest, gives_tools_of_a_namespace_both_names_and_splits_them_in_the_answer) {
  const auto store = std::make_shared<ResponseStore>();
  const TranslatedChat chat =
      read_responses_request({{"input", "Hi"}, {"tools", Json::array({parse(kNamespace)})}}, store);
  EXPECT_THAT(tool_names(chat.body), ElementsAre("agents__spawn", "agents__say"));
  EXPECT_EQ(chat.body["tools"][0]["function"]["description"], "Sub-agents.\n\nOne.");
  EXPECT_TRUE(chat.unused_fields.empty());

  Json completion = completion_of_an_answer();
  Json& calls = completion["choices"][0]["message"]["tool_calls"];
  calls[0]["function"]["name"] = "agents__spawn";
  calls[1]["function"] = {{"name", "agents__say"}, {"arguments", R"({"input": "go"})"}};
  const Json response = chat.answer->whole(completion);
  const Json& output = response["output"];
  EXPECT_EQ(output[2]["name"], "spawn");
  EXPECT_EQ(output[2]["namespace"], "agents");
  EXPECT_EQ(output[3]["type"], "custom_tool_call");
  EXPECT_EQ(output[3]["name"], "say");
  EXPECT_EQ(output[3]["input"], "go");

  const TranslatedChat next =
      read_responses_request({{"input", "And?"}, {"previous_response_id", response["id"]}}, store);
  const TranslatedChat sent = read_responses_request(
      {{"input", Json::array({{{"role", "user"}, {"content", "Hi"}}, output[2]})}}, store);
  for (const Json& messages : {next.body["messages"], sent.body["messages"]}) {
    EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["name"], "agents__spawn");
  }
}

TEST(ResponsesRequest, an_image_that_a_tool_returned_does_not_end_the_session) {
  const auto store = std::make_shared<ResponseStore>();
  const Json image = {{"type", "input_image"}, {"image_url", "data:x"}};
  const Json result = {
      {"type", "function_call_output"},
      {"call_id", "a"},
      {"output", Json::array({{{"type", "input_text"}, {"text", "It is"}}, image})}};
  const TranslatedChat chat = read_responses_request({{"input", Json::array({result})}}, store);
  EXPECT_EQ(chat.body["messages"][0]["content"],
            "It is\n[An image, which this model cannot read.]");
  EXPECT_THAT(chat.unused_fields, ElementsAre("input[].output[].image_url"));
  const Json question = {{"role", "user"}, {"content", Json::array({image})}};
  EXPECT_THROW((void)read_responses_request({{"input", Json::array({question})}}, store), ApiError);
}

TEST(ResponsesRequest, does_not_forget_a_call_that_must_be_made) {
  const auto choice_of = [](std::string_view choice) {
    const Json body = {
        {"input", "Hi"}, {"tools", parse(R"([{"type": "web_search"}])")}, {"tool_choice", choice}};
    const Json chat = read_responses_request(body, std::make_shared<ResponseStore>()).body;
    return chat.value("tool_choice", Json());
  };
  EXPECT_EQ(choice_of("required"), "required");  // which a chat without tools refuses
  EXPECT_EQ(choice_of("auto"), nullptr);
}

TEST(ResponseStore, forgets_the_oldest_responses_beyond_its_memory) {
  ResponseStore store(/*max_bytes=*/100);
  const Json text = std::string(30, 'x');
  for (const char* id : {"a", "b", "c", "d"}) store.put(id, text, Json::array());
  EXPECT_FALSE(store.response("a").has_value());
  EXPECT_FALSE(store.messages("b").has_value());
  EXPECT_EQ(store.response("c"), text.dump());
  EXPECT_EQ(store.messages("d"), Json::array());
  store.put("large", std::string(200, 'x'), Json::array());
  EXPECT_FALSE(store.response("large").has_value());
  EXPECT_TRUE(store.response("d").has_value());
  EXPECT_TRUE(store.erase("d"));
  EXPECT_FALSE(store.erase("d"));
}

TEST(OllamaAnswer, has_a_line_for_each_text_and_whole_calls_at_its_end) {
  const std::vector<Json> lines = stream(*make_ollama_answer(OllamaForm::chat));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["message"]["thinking"], "hm");
  EXPECT_EQ(lines[1]["message"]["content"], "Let me");
  EXPECT_EQ(lines[3]["message"]["tool_calls"], parse(R"([
    {"function": {"name": "look", "arguments": {"x": 1}}},
    {"function": {"name": "patch", "arguments": {"input": "+y"}}}])"));
  EXPECT_EQ(lines[4]["done"], true);
  EXPECT_EQ(lines[4]["eval_count"], 4);
  const Json whole = make_ollama_answer(OllamaForm::chat)->whole(completion_of_an_answer());
  EXPECT_EQ(whole["message"]["content"], "Let me see.");
  EXPECT_EQ(whole["message"]["tool_calls"], lines[3]["message"]["tool_calls"]);
  EXPECT_EQ(whole["created_at"], "1970-01-01T00:00:07Z");
}

TEST(OllamaAnswer, has_durations_that_clients_can_divide_by) {
  for (const int64_t decode_ns : {int64_t{0}, int64_t{1000}, int64_t{1} << 60}) {
    Json completion = completion_of_an_answer();
    completion["usage"]["decode_ns"] = decode_ns;
    const Json whole = make_ollama_answer(OllamaForm::generate)->whole(completion);
    const auto total = whole["total_duration"].get<int64_t>();
    const auto decode = whole["eval_duration"].get<int64_t>();
    EXPECT_EQ(decode, decode_ns == 1000 ? std::min<int64_t>(1000, total) : total);
    EXPECT_EQ(whole["prompt_eval_duration"], std::max<int64_t>(total - decode, 1));
    EXPECT_GT(decode, 0);
  }
}

TEST(TranslatedErrors, name_the_field_that_the_client_sent) {
  const auto said = [](const TranslatedChat& chat, const char* message, const char* param) {
    const ApiError error = in_words_of_client(ApiError(400, message, param), chat.names);
    EXPECT_EQ(error.status(), 400);
    return fmt::format("{} {}", error.param().value_or("-"), error.what());
  };
  const Json ollama = parse(R"({"model": "tiny", "messages": []})");
  const Json anthropic = parse(R"({"model": "tiny", "messages": [], "max_tokens": 1})");
  const auto store = std::make_shared<ResponseStore>(1);
  EXPECT_EQ(said(read_ollama_chat(ollama), "max_tokens is 0.", "max_tokens"),
            "options.num_predict options.num_predict is 0.");
  EXPECT_EQ(said(read_ollama_chat(ollama), "max_tokens_ is 0.", "max_tokens_"),
            "max_tokens_ max_tokens_ is 0.");
  EXPECT_EQ(said(read_anthropic_request(anthropic), "stop[2] is too long.", "stop"),
            "stop_sequences stop_sequences[2] is too long.");
  EXPECT_EQ(said(read_anthropic_request(anthropic), "The text of stop is empty.", "stop"),
            "stop_sequences The text of stop is empty.");
  EXPECT_EQ(said(read_anthropic_request(anthropic), "top_p is 2.", "top_p"), "top_p top_p is 2.");
  EXPECT_EQ(
      said(read_responses_request({{"input", "Hi"}}, store), "max_tokens is 0.", "max_tokens"),
      "max_output_tokens max_output_tokens is 0.");
}

TEST(OllamaRequest, takes_a_raw_prompt_as_a_text_without_a_template) {
  const TranslatedChat text = read_ollama_generate(
      parse(R"({"model": "tiny", "prompt": "<PRE>a<SUF>", "raw": true, "think": true,
                "options": {"num_predict": 4, "stop": ["b"]}})"));
  EXPECT_TRUE(text.is_text);
  EXPECT_EQ(text.body["prompt"], "<PRE>a<SUF>");
  EXPECT_EQ(text.body["max_tokens"], 4);
  EXPECT_FALSE(text.body.contains("messages"));
  EXPECT_THAT(text.unused_fields, ElementsAre("think"));  // there is no template to switch
  EXPECT_FALSE(read_ollama_generate(parse(R"({"model": "tiny", "prompt": "a"})")).is_text);
  EXPECT_THROW((void)read_ollama_generate(parse(
                   R"({"model": "tiny", "prompt": "a", "raw": true, "system": "Be brief."})")),
               ApiError);
}

TEST(OllamaRequest, without_a_message_or_a_prompt_only_loads_the_model) {
  const auto loads = [](std::string_view body, OllamaForm form) {
    const Json json = parse(body);
    return asks_ollama_to_load(RequestFields(json), form);
  };
  EXPECT_TRUE(loads(R"({"model": "tiny", "messages": []})", OllamaForm::chat));
  EXPECT_FALSE(loads(R"({"model": "tiny"})", OllamaForm::chat));
  EXPECT_TRUE(loads(R"({"model": "tiny", "keep_alive": 0})", OllamaForm::generate));
  EXPECT_TRUE(loads(R"({"model": "tiny", "prompt": "", "images": []})", OllamaForm::generate));
  EXPECT_FALSE(loads(R"({"model": "tiny", "prompt": "Hi"})", OllamaForm::generate));
  EXPECT_FALSE(loads(R"({"model": "tiny", "suffix": "}"})", OllamaForm::generate));
}

TEST(OllamaRequest, streams_unless_told_otherwise_and_drops_the_tag) {
  const TranslatedChat chat = read_ollama_chat(parse(R"({
    "model": "tiny:latest", "messages": [{"role": "user", "content": "Hi"}],
    "options": {"num_predict": -1, "repeat_penalty": 1.1, "num_ctx": 99}, "format": "json"})"));
  EXPECT_EQ(chat.body["model"], "tiny");
  EXPECT_EQ(chat.body["stream"], true);
  EXPECT_FALSE(chat.body.contains("max_tokens"));
  EXPECT_EQ(chat.body["repetition_penalty"], 1.1);
  EXPECT_EQ(chat.body["response_format"], parse(R"({"type": "json_object"})"));
  EXPECT_THAT(chat.unused_fields, ElementsAre("options.num_ctx"));
}

}  // namespace
}  // namespace reprise::server
