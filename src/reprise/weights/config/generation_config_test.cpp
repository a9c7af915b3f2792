#include "reprise/weights/config/generation_config.h"

#include <gtest/gtest.h>

#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

std::string code(std::string_view json) {
  return code_of([&] { (void)parse_generation_config(json, "generation_config.json"); });
}

TEST(GenerationConfig, reads_what_authors_recommend) {
  const GenerationConfig config = parse_generation_config(
      R"({"bos_token_id":151643,"do_sample":true,"eos_token_id":[151645,151643],)"
      R"("pad_token_id":151643,"repetition_penalty":1.05,"temperature":0.7,"top_k":20,)"
      R"("top_p":0.8,"min_p":0.05,"max_new_tokens":2048,"transformers_version":"4.37.0"})",
      "generation_config.json");
  EXPECT_EQ(config,
            (GenerationConfig{.eos_token_ids = {151645, 151643},
                              .bos_token_id = 151643,
                              .do_sample = true,
                              .temperature = 0.7,
                              .top_k = 20,
                              .top_p = 0.8,
                              .min_p = 0.05,
                              .repetition_penalty = 1.05,
                              .max_new_tokens = 2048}));
}

TEST(GenerationConfig, takes_null_and_absence_for_no_recommendation) {
  EXPECT_EQ(parse_generation_config("{}", "g"), GenerationConfig{});
  EXPECT_EQ(parse_generation_config(
                R"({"temperature":null,"eos_token_id":null,"top_k":null,"do_sample":null})", "g"),
            GenerationConfig{});
  EXPECT_EQ(parse_generation_config(R"({"eos_token_id":2})", "g").eos_token_ids,
            std::vector<int64_t>{2});
}

TEST(GenerationConfig, names_what_it_does_not_use_and_what_would_change_an_answer) {
  const GenerationConfig config = parse_generation_config(
      R"({"forced_eos_token_id":2,"min_length":56,"no_repeat_ngram_size":3,"num_beams":4,)"
      R"("length_penalty":2.0,"early_stopping":true,"typical_p":1.0,"suppress_tokens":[],)"
      R"("bad_words_ids":[[7]],"min_new_tokens":0,"penalty_alpha":null,"stop_strings":"."})",
      "g");
  EXPECT_EQ(config.ignored,
            (std::vector<std::string>{"bad_words_ids [[7]]",
                                      "forced_eos_token_id 2",
                                      "min_length 56",
                                      "no_repeat_ngram_size 3",
                                      "num_beams 4",
                                      "stop_strings \".\""}));
  EXPECT_EQ(parse_generation_config(R"({"forced_eos_token_id":0})", "g").ignored.size(), 1U);
  const std::string many = R"({"suppress_tokens":[1234567890,1234567890,1234567890,1234567890]})";
  EXPECT_EQ(parse_generation_config(many, "g").ignored,
            std::vector<std::string>{"suppress_tokens ..."});
}

TEST(GenerationConfig, refuses_values_out_of_range_or_of_another_type) {
  for (const char* json : {R"({"temperature":-0.1})",
                           R"({"temperature":"0.5"})",
                           R"({"temperature":1e400})",
                           R"({"top_p":0})",
                           R"({"top_p":1.01})",
                           R"({"min_p":-1})",
                           R"({"top_k":-2})",
                           R"({"top_k":1.5})",
                           R"({"repetition_penalty":0})",
                           R"({"max_new_tokens":0})",
                           R"({"eos_token_id":-1})",
                           R"({"eos_token_id":["a"]})",
                           R"({"eos_token_id":1.0})",
                           R"({"do_sample":1})",
                           "[]",
                           "",
                           "{"}) {
    EXPECT_EQ(code(json), "E_CONFIG") << json;
  }
}

TEST(GenerationConfig, names_what_older_folders_have_in_config_json) {
  const TempDirectory directory;
  directory.write("config.json", R"({"min_length":56,"top_k":7,"num_beams":1})");
  EXPECT_EQ(load_generation_config(ModelDirectory(directory.path())),
            (GenerationConfig{.ignored = {"min_length 56"}}));
}

TEST(GenerationConfig, is_empty_without_a_file) {
  const TempDirectory directory;
  EXPECT_EQ(load_generation_config(ModelDirectory(directory.path())), GenerationConfig{});
  directory.write("generation_config.json", R"({"top_k":5,"top_p":0.5})");
  EXPECT_EQ(load_generation_config(ModelDirectory(directory.path())).top_k, 5);
  directory.write("config.json", R"({"min_length":5,"top_k":7})");
  EXPECT_TRUE(load_generation_config(ModelDirectory(directory.path())).ignored.empty());
  const GenerationConfig overridden = load_generation_config(
      ModelDirectory(directory.path()), {{"top_k", 7}, {"top_p", nullptr}, {"min_p", 0.25}});
  EXPECT_EQ(overridden, (GenerationConfig{.top_k = 7, .min_p = 0.25}));
}

TEST(GenerationConfig, overrides_need_no_file_and_are_checked) {
  const TempDirectory directory;
  const ModelDirectory model(directory.path());
  EXPECT_EQ(load_generation_config(model, {{"top_k", 7}}).top_k, 7);
  EXPECT_THROW((void)load_generation_config(model, {{"top_p", 2}}), FileError);
}

}  // namespace
}  // namespace reprise::weights
