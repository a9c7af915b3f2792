#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/c/reprise.h"
#include "tests/support/source_dir.h"

namespace reprise {
namespace {

using ::testing::HasSubstr;

std::string model(const char* path) {
  return (std::filesystem::path(source_dir()) / path).string();
}

struct Unload {
  void operator()(reprise_engine* engine) const { reprise_unload(engine); }
};
using Engine = std::unique_ptr<reprise_engine, Unload>;

Engine load(const std::string& path, std::vector<const char*> options = {}) {
  std::vector<const char*> arguments = {path.c_str(), "--disable-compile-cache"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  reprise_engine* engine = nullptr;
  EXPECT_EQ(reprise_load(arguments.data(), arguments.size(), nullptr, nullptr, &engine), REPRISE_OK)
      << reprise_last_error();
  return Engine(engine);
}

reprise_sampling greedy(int32_t max_tokens) {
  reprise_sampling sampling = reprise_default_sampling();
  sampling.max_tokens = max_tokens;
  sampling.temperature = 0;
  return sampling;
}

using OnText = std::function<int(const std::string&)>;
int call(const char* text, void* user) { return (*static_cast<OnText*>(user))(text); }

/// The answer to a prompt. Also checks that the pieces of the stream together are the whole answer.
std::string answer_to(reprise_engine* engine, const char* prompt, int32_t max_tokens = 12) {
  std::string pieces;
  OnText collect = [&](const std::string& text) {
    pieces += text;
    return 0;
  };
  const reprise_sampling sampling = greedy(max_tokens);
  char* whole = nullptr;
  EXPECT_EQ(reprise_generate(engine, prompt, &sampling, call, &collect, &whole), REPRISE_OK)
      << reprise_last_error();
  const std::string text = whole == nullptr ? "" : whole;
  reprise_free(whole);
  EXPECT_EQ(pieces, text);
  return text;
}

class CInterface : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = load(model("models/reprise-tiny")).release(); }
  static void TearDownTestSuite() { reprise_unload(engine_); }
  static reprise_engine* engine_;
};
reprise_engine* CInterface::engine_ = nullptr;

TEST_F(CInterface, answers_threads_at_once_as_it_answers_them_alone) {
  const std::array<const char*, 4> prompts = {
      "Once upon a time", "Tom has 3", "The fox", "What is"};
  std::array<std::string, 4> alone;
  for (size_t i = 0; i < prompts.size(); ++i) alone[i] = answer_to(engine_, prompts[i]);
  std::array<std::string, 4> at_once;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < prompts.size(); ++i) {
    threads.emplace_back([&, i] { at_once[i] = answer_to(engine_, prompts[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(at_once, alone);
}

TEST_F(CInterface, ends_a_request_when_its_callback_says_so) {
  int calls = 0;
  OnText stop = [&](const std::string&) { return ++calls == 2 ? 1 : 0; };
  const reprise_sampling sampling = greedy(200);
  char* text = nullptr;
  EXPECT_EQ(reprise_generate(engine_, "Once upon a time", &sampling, call, &stop, &text),
            REPRISE_CANCELLED);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(text, nullptr);
  EXPECT_FALSE(answer_to(engine_, "Once upon a time").empty());
}

TEST_F(CInterface, has_the_answers_of_the_server) {
  char* answer = nullptr;
  const char* body =
      R"({"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "logprobs": 1})";
  ASSERT_EQ(reprise_post(engine_, "/v1/completions", body, nullptr, nullptr, &answer), REPRISE_OK)
      << reprise_last_error();
  const Json completion = Json::parse(answer);
  reprise_free(answer);
  EXPECT_EQ(completion["choices"][0]["text"], answer_to(engine_, "Once upon a time"));
  EXPECT_EQ(completion["choices"][0]["logprobs"]["tokens"].size(), 12U);
  std::string content;
  OnText add = [&](const std::string& event) {
    const Json chunk = Json::parse(event);
    if (!chunk["choices"].empty()) content += chunk["choices"][0]["delta"].value("content", "");
    return 0;
  };
  const char* chat = R"({"messages": [{"role": "user", "content": "What is 3 + 4?"}],
                         "max_tokens": 6, "temperature": 0, "stream": true})";
  EXPECT_EQ(reprise_post(engine_, "/v1/chat/completions", chat, call, &add, nullptr), REPRISE_OK)
      << reprise_last_error();
  EXPECT_FALSE(content.empty());
}

TEST_F(CInterface, says_what_is_wrong) {
  reprise_engine* none = nullptr;
  const char* missing[] = {"no/such/model"};
  EXPECT_EQ(reprise_load(missing, 1, nullptr, nullptr, &none), REPRISE_INVALID_ARGUMENT);
  EXPECT_THAT(reprise_last_error(), HasSubstr("no/such/model"));
  const char* unknown[] = {"no/such/model", "--no-such-option"};
  EXPECT_EQ(reprise_load(unknown, 2, nullptr, nullptr, &none), REPRISE_INVALID_ARGUMENT);
  EXPECT_THAT(reprise_last_error(), HasSubstr("no-such-option"));
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(reprise_generate(nullptr, "Hi", nullptr, nullptr, nullptr, nullptr),
            REPRISE_INVALID_ARGUMENT);
  EXPECT_STREQ(reprise_last_error(), "engine is NULL");
  char* answer = nullptr;
  EXPECT_EQ(
      reprise_post(
          engine_, "/v1/completions", R"({"prompt": "Hi", "n": 0})", nullptr, nullptr, &answer),
      REPRISE_INVALID_ARGUMENT);
  EXPECT_THAT(reprise_last_error(), HasSubstr("n is 0"));
  EXPECT_EQ(reprise_post(engine_, "/nowhere", "{}", nullptr, nullptr, &answer),
            REPRISE_INVALID_ARGUMENT);
  EXPECT_EQ(reprise_post(engine_,
                         "/v1/completions",
                         R"({"prompt": "Hi", "stream": true})",
                         nullptr,
                         nullptr,
                         &answer),
            REPRISE_INVALID_ARGUMENT);
  EXPECT_STREQ(reprise_last_error(), "on_event is NULL");
  const reprise_sampling sampling = greedy(100'000);
  EXPECT_EQ(reprise_generate(engine_, "Hi", &sampling, nullptr, nullptr, nullptr),
            REPRISE_INVALID_ARGUMENT);
  EXPECT_EQ(answer, nullptr);
}

TEST_F(CInterface, tokenizes_into_the_memory_of_the_caller) {
  const std::string text = "Once upon a time";
  size_t count = 0;
  ASSERT_EQ(reprise_tokenize(engine_, text.data(), text.size(), 0, nullptr, 0, &count), REPRISE_OK);
  std::vector<int32_t> ids(count + 1, -1);
  size_t again = 0;
  ASSERT_EQ(reprise_tokenize(engine_, text.data(), text.size(), 0, ids.data(), count, &again),
            REPRISE_OK);
  EXPECT_EQ(again, count);
  EXPECT_EQ(ids[count], -1);
  char* back = nullptr;
  ASSERT_EQ(reprise_detokenize(engine_, ids.data(), count, &back), REPRISE_OK);
  EXPECT_STREQ(back, text.c_str());
  reprise_free(back);
  EXPECT_EQ(reprise_detokenize(engine_, ids.data(), count + 1, &back), REPRISE_INVALID_ARGUMENT);
}

TEST(CInterfaceUnload, ends_calls_that_still_run) {
  Engine engine = load(model("models/reprise-tiny"));
  std::thread unloading;
  OnText unload_soon = [&](const std::string&) {
    if (!unloading.joinable()) {
      unloading = std::thread([pointer = engine.release()] { reprise_unload(pointer); });
    }
    return 0;
  };
  const reprise_sampling sampling = greedy(400);
  reprise_engine* borrowed = engine.get();
  EXPECT_EQ(reprise_generate(borrowed, "Once upon a time", &sampling, call, &unload_soon, nullptr),
            REPRISE_FAILED);
  EXPECT_THAT(reprise_last_error(), HasSubstr("unloaded"));
  unloading.join();
}

TEST(CInterfaceVectors, are_those_of_the_route) {
  const std::string tokenizer = model("models/reprise-tiny");
  const Engine engine = load(model("tests/goldens/pooling/qwen3-last"),
                             {"--tokenizer", tokenizer.c_str(), "--dtype", "float32"});
  ASSERT_NE(engine, nullptr);
  const char* text = "!#";  // tokens that this small model has
  char* answer = nullptr;
  ASSERT_EQ(
      reprise_post(engine.get(), "/v1/embeddings", R"({"input": "!#"})", nullptr, nullptr, &answer),
      REPRISE_OK)
      << reprise_last_error();
  const auto expected = Json::parse(answer)["data"][0]["embedding"].get<std::vector<float>>();
  reprise_free(answer);
  std::vector<float> vector(expected.size() + 1, -7.0F);
  size_t count = 0;
  ASSERT_EQ(reprise_embed(engine.get(), text, vector.data(), expected.size(), &count), REPRISE_OK)
      << reprise_last_error();
  EXPECT_EQ(count, expected.size());
  EXPECT_EQ(vector.back(), -7.0F);
  vector.pop_back();
  EXPECT_EQ(vector, expected);
  EXPECT_EQ(reprise_generate(engine.get(), text, nullptr, nullptr, nullptr, nullptr),
            REPRISE_INVALID_ARGUMENT);
}

// A request that owned itself was never freed: each answer leaked 1,200 bytes.
TEST(CInterfaceMemory, is_what_it_was_after_answers) {
  const Engine engine = load(model("models/reprise-tiny"));
  const auto answer = [&](int count) {
    for (int i = 0; i < count; ++i) EXPECT_NE(answer_to(engine.get(), "Once", 2), "");
  };
  answer(50);
  const size_t before = mallinfo2().uordblks;
  constexpr int kAnswers = 300;
  answer(kAnswers);
  EXPECT_LT(mallinfo2().uordblks, before + size_t{400} * kAnswers);
}

}  // namespace
}  // namespace reprise
