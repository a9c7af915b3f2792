#include "reprise/bench/dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "reprise/base/error.h"
#include "tests/support/source_dir.h"

namespace reprise::bench {
namespace {

const std::filesystem::path kModel =
    std::filesystem::path(source_dir()) / "models" / "reprise-tiny";

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() : tokenizer_(tokenizer::Tokenizer::load(kModel)) {}
  ~DatasetTest() override { std::filesystem::remove(path_); }

  std::vector<SampleRequest> make(const DatasetOptions& options, uint64_t seed = 0) {
    RandomSource random(seed);
    const DatasetTools tools{
        .tokenizer = &tokenizer_,
        .apply_chat_template = [](const std::string& text) { return "<<" + text + ">>"; }};
    return make_requests(options, tools, random);
  }
  /// Reads requests from a file with this content.
  std::vector<SampleRequest> make_from(DatasetOptions options, const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    options.path = path_;
    return make(options);
  }
  void expect_refused(const DatasetOptions& options,
                      const std::string& content,
                      const std::string& field,
                      const std::string& code = "E_DATASET") {
    try {
      static_cast<void>(make_from(options, content));
      FAIL() << "accepted: " << content.substr(0, 80);
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_EQ(error.field(), field) << error.what();
    }
  }
  [[nodiscard]] int64_t count(const std::string& text) const {
    return static_cast<int64_t>(tokenizer_.encode(text).size());
  }

  tokenizer::Tokenizer tokenizer_;
  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                (std::string("reprise_dataset_") + std::to_string(getpid()) +
                                 testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(DatasetTest, random_prompts_have_exactly_the_length_the_server_will_count) {
  const auto requests = make({.num_prompts = 50, .random_input_len = 100, .random_output_len = 7});
  ASSERT_EQ(requests.size(), 50U);
  std::set<std::string> texts;
  for (const SampleRequest& request : requests) {
    EXPECT_EQ(count(request.prompt), 100);
    EXPECT_EQ(request.output_len, 7);
    texts.insert(request.prompt);
  }
  EXPECT_GT(texts.size(), 45U);
}

TEST_F(DatasetTest, random_lengths_fill_the_range_and_follow_the_seed) {
  const DatasetOptions options{.num_prompts = 300,
                               .random_input_len = 40,
                               .random_output_len = 20,
                               .random_range_ratio = 0.5};
  int64_t shortest = 1000;
  int64_t longest = 0;
  for (const SampleRequest& request : make(options)) {
    EXPECT_GE(request.output_len, 10);
    EXPECT_LE(request.output_len, 30);
    shortest = std::min(shortest, request.prompt_len);
    longest = std::max(longest, request.prompt_len);
  }
  EXPECT_LE(shortest, 21);
  EXPECT_GE(longest, 59);
  EXPECT_LE(longest, 60);
  EXPECT_EQ(make(options, 3)[7].prompt, make(options, 3)[7].prompt);
  EXPECT_NE(make(options, 3)[7].prompt, make(options, 4)[7].prompt);
}

TEST_F(DatasetTest, random_prefix_is_shared_and_comes_on_top) {
  const auto requests = make({.num_prompts = 5, .random_input_len = 30, .random_prefix_len = 16});
  const std::string start = requests[0].prompt.substr(0, 12);
  for (const SampleRequest& request : requests) {
    EXPECT_EQ(count(request.prompt), 46);
    EXPECT_EQ(request.prompt.substr(0, 12), start);
  }
}

TEST_F(DatasetTest, a_timed_trace_keeps_its_times_lengths_and_shared_chunks) {
  const DatasetOptions options{.name = "timed_trace",
                               .num_prompts = 4,
                               .timed_trace_chunk_hash_size = 8,
                               .timed_trace_sec_multiplier = 0.001};
  const std::string lines =
      R"({"timestamp": 27482, "input_length": 20, "output_length": 500, "hash_ids": [46, 47, 48]}
{"timestamp": 27982, "input_length": 13, "output_length": 3, "hash_ids": [46, -1]}
{"timestamp": 26482, "input_length": 30, "output_length": 7, "hash_ids": [9]}
)";
  const auto requests = make_from(options, lines);
  ASSERT_EQ(requests.size(), 3U) << "no request is sent twice";
  EXPECT_EQ(requests[0].output_len, 7);
  EXPECT_DOUBLE_EQ(*requests[0].send_time, 0);
  EXPECT_DOUBLE_EQ(*requests[1].send_time, 1);
  EXPECT_DOUBLE_EQ(*requests[2].send_time, 1.5);
  const auto common = [](const std::string& a, const std::string& b) {
    return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  };
  const std::vector<int32_t> first = tokenizer_.encode(requests[1].prompt);
  const std::vector<int32_t> second = tokenizer_.encode(requests[2].prompt);
  const auto shared = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first;
  EXPECT_GE(shared - first.begin(), 6) << "a chunk of 8 tokens, of which some may merge";
  EXPECT_LT(common(requests[0].prompt, requests[1].prompt), 8);
  EXPECT_NEAR(static_cast<double>(requests[1].prompt_len), 20, 6);
  const auto again = make_from(options, lines);
  EXPECT_EQ(again[1].prompt, requests[1].prompt);

  const auto refused = [&](const std::string& line) { expect_refused(options, line, "line 1"); };
  refused(R"({"timestamp": 1, "input_length": 0, "output_length": 5, "hash_ids": []})");
  refused(R"({"timestamp": "1", "input_length": 2, "output_length": 5, "hash_ids": []})");
  refused(R"({"timestamp": 1, "input_length": 2, "output_length": 5, "hash_ids": [0.5]})");
  refused(R"({"timestamp": 1, "input_length": 2, "hash_ids": []})");
  refused("[1]");
  EXPECT_THROW((void)make({.name = "timed_trace", .path = "x", .timed_trace_sec_multiplier = 0}),
               InvalidArgument);
}

TEST_F(DatasetTest, prefix_repetition_has_that_many_prefixes) {
  const auto requests = make({.name = "prefix_repetition",
                              .num_prompts = 12,
                              .prefix_repetition_prefix_len = 40,
                              .prefix_repetition_suffix_len = 10,
                              .prefix_repetition_num_prefixes = 3});
  ASSERT_EQ(requests.size(), 12U);
  std::multiset<std::string> starts;
  for (const SampleRequest& request : requests) {
    EXPECT_EQ(request.prompt_len, 50);
    starts.insert(request.prompt.substr(0, 30));
  }
  for (const std::string& start : starts) EXPECT_EQ(starts.count(start), 4U);
  EXPECT_THROW(make({.name = "prefix_repetition", .num_prompts = 2}), InvalidArgument);
}

std::string conversation(const std::string& prompt, const std::string& answer) {
  return Json{
      {"id", "1"},
      {"conversations",
       Json::array({{{"from", "human"}, {"value", prompt}}, {{"from", "gpt"}, {"value", answer}}})}}
      .dump();
}

TEST_F(DatasetTest, sharegpt_takes_the_first_turn_and_the_answers_length) {
  const std::string story = "Once upon a time there was a little dog.";
  const std::string answer = "The dog was happy and ran home.";
  const std::string file = "[\n" + conversation(story, answer) + ",\n" + conversation("a", answer) +
                           ",\n {\"conversations\": []}, {}\n]\n";
  const auto requests = make_from({.name = "sharegpt", .num_prompts = 3}, file);
  ASSERT_EQ(requests.size(), 3U);  // repeated: too short ones are left out
  for (const SampleRequest& request : requests) {
    EXPECT_EQ(request.prompt, story);
    EXPECT_EQ(request.prompt_len, count(story));
    EXPECT_EQ(request.output_len, count(answer));
  }
  EXPECT_EQ(make_from({.name = "sharegpt", .num_prompts = 3, .no_oversample = true}, file).size(),
            1U);
  EXPECT_EQ(make_from({.name = "sharegpt", .num_prompts = 1, .sharegpt_output_len = 3}, file)[0]
                .output_len,
            3);
}

TEST_F(DatasetTest, sharegpt_names_the_line_of_what_is_wrong) {
  const DatasetOptions options{.name = "sharegpt", .num_prompts = 1};
  const std::string good = conversation("Once upon a time there was a dog.", "It ran home again.");
  expect_refused(options, "{}", "line 1");
  expect_refused(options, "", "line 1");
  expect_refused(options, "[\n" + good + "\n" + good + "]", "line 3");
  expect_refused(options, "[\n" + good + ",\n{\"conversations\": 3}]", "line 3");
  expect_refused(options, "[\n" + good + ",\n\n{\"conversations\": [{}, {}]}]", "line 4");
  expect_refused(options, "[\n" + good + ",\n{]", "line 3");
  expect_refused(options, "[\n" + good, "line 2", "E_TRUNCATED");
  expect_refused(options, "[\n" + good + ",\n{\"conversations", "line 3", "E_TRUNCATED");
  expect_refused(options, "[\n" + good + "] x", "line 2");
  expect_refused(options,
                 "[\n" + good + ",\n" + std::string(2000, '[') + std::string(2000, ']') + "]",
                 "line 3");
  expect_refused(options, "[]", "");
}

TEST_F(DatasetTest, a_value_without_end_is_refused_at_16_mib) {
  expect_refused({.name = "sharegpt", .num_prompts = 1},
                 "[\"" + std::string(JsonLimits{}.max_bytes / 8, 'x'),
                 "line 1");
}

TEST_F(DatasetTest, custom_takes_lines_with_prompts) {
  const std::string file =
      "{\"prompt\": \"One day\", \"output_tokens\": 5}\n\n{\"prompt\": \"The cat\", "
      "\"output_tokens\": 9}\n";
  const auto requests = make_from(
      {.name = "custom", .num_prompts = 2, .disable_shuffle = true, .custom_output_len = -1}, file);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].prompt, "<<One day>>");
  EXPECT_EQ(requests[0].prompt_len, count("<<One day>>"));
  EXPECT_EQ(requests[0].output_len, 5);
  EXPECT_EQ(requests[1].output_len, 9);
  const auto plain = make_from({.name = "custom",
                                .num_prompts = 1,
                                .disable_shuffle = true,
                                .custom_output_len = 4,
                                .skip_chat_template = true},
                               file);
  EXPECT_EQ(plain[0].prompt, "One day");
  EXPECT_EQ(plain[0].output_len, 4);
}

TEST_F(DatasetTest, custom_names_the_line_of_what_is_wrong) {
  const DatasetOptions options{.name = "custom", .num_prompts = 5};
  const std::string good = "{\"prompt\": \"One day\"}\n";
  expect_refused(options, good + "{\"prompt\": 3}\n", "line 2");
  expect_refused(options, good + "\n{\"text\": \"x\"}\n", "line 3");
  expect_refused(options, good + good + "{\"prompt\": \n", "line 3");
  expect_refused(options, good + "[1]\n", "line 2");
  expect_refused({.name = "custom", .num_prompts = 5, .custom_output_len = -1}, good, "line 1");
  expect_refused(options, "\n\n", "");
}

TEST_F(DatasetTest, sonnet_prompts_share_their_first_lines_and_fit) {
  std::string poem;
  for (int i = 0; i < 40; ++i)
    poem += "The little dog ran to the big tree number " + std::to_string(i) + "\n";
  const DatasetOptions options{.name = "sonnet",
                               .num_prompts = 6,
                               .sonnet_input_len = 300,
                               .sonnet_output_len = 11,
                               .sonnet_prefix_len = 100};
  const auto requests = make_from(options, poem);
  ASSERT_EQ(requests.size(), 6U);
  for (const SampleRequest& request : requests) {
    EXPECT_LE(request.prompt_len, 300);
    EXPECT_GE(request.prompt_len, 220);
    EXPECT_EQ(request.prompt.substr(0, 100), requests[0].prompt.substr(0, 100));
    EXPECT_EQ(count(request.prompt), request.prompt_len);
  }
  EXPECT_NE(requests[0].prompt, requests[1].prompt);
  DatasetOptions tight = options;
  tight.sonnet_input_len = 5;
  EXPECT_THROW(make_from(tight, poem), InvalidArgument);
}

TEST_F(DatasetTest, options_that_do_not_go_together_are_refused) {
  EXPECT_THROW(make({.name = "nosuch"}), InvalidArgument);
  EXPECT_THROW(make({.name = "sharegpt"}), InvalidArgument);
  EXPECT_THROW(make({.name = "custom", .path = "nowhere"}), FileError);
  EXPECT_THROW(make({.path = "x"}), InvalidArgument);
  EXPECT_THROW(make({.num_prompts = 0}), InvalidArgument);
  EXPECT_THROW(make({.random_range_ratio = 1}), InvalidArgument);
  EXPECT_THROW(make({.random_input_len = 0}), InvalidArgument);
}

}  // namespace
}  // namespace reprise::bench
