#include "reprise/weights/config/config_overrides.h"

#include <gtest/gtest.h>

#include "reprise/weights/config/model_config.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kConfig = R"({"architectures": ["Qwen3ForCausalLM"], "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100,
  "max_position_embeddings": 2048)";

const Json kYarn = {
    {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};

RopeParameters rope_of(std::string_view rest, const Json& overrides) {
  const LoadedModelConfig loaded =
      parse_model_config(std::string(kConfig).append(rest), "config.json", overrides);
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front();
  return loaded.config.rope;
}

// The same rotation in the spellings of Transformers 4 and Transformers 5.
constexpr std::array<std::string_view, 2> kSpellings = {
    R"(, "rope_theta": 5000.0, "rope_scaling": {"type": "linear", "factor": 2.0}})",
    R"(, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0}})"};

TEST(ConfigOverrides, replace_a_scaling_in_either_spelling) {
  for (const std::string_view spelling : kSpellings) {
    const RopeParameters yarn = rope_of(spelling, {{"rope_scaling", kYarn}});
    EXPECT_EQ(yarn.type, RopeType::yarn) << spelling;
    EXPECT_EQ(yarn.theta, 5000.0) << spelling;
    EXPECT_EQ(yarn.factor, 4.0) << spelling;
    EXPECT_EQ(yarn.original_max_position_embeddings, 1024) << spelling;
    Json old_key = kYarn;
    old_key.erase("rope_type");
    old_key["type"] = "yarn";
    EXPECT_EQ(rope_of(spelling, {{"rope_scaling", old_key}}), yarn) << spelling;
  }
}

TEST(ConfigOverrides, change_members_of_a_scaling_and_remove_it) {
  for (const std::string_view spelling : kSpellings) {
    EXPECT_EQ(rope_of(spelling, {{"rope_scaling", {{"factor", 3.0}}}}).factor, 3.0) << spelling;
    EXPECT_EQ(rope_of(spelling, {{"rope_scaling", nullptr}}).type, RopeType::standard) << spelling;
    EXPECT_EQ(rope_of(spelling, {{"rope_scaling", nullptr}}).theta, 5000.0) << spelling;
    EXPECT_EQ(rope_of(spelling, {{"rope_theta", 7000}}).theta, 7000) << spelling;
  }
  const RopeParameters both = rope_of(kSpellings[1], {{"rope_parameters", kYarn}});
  EXPECT_EQ(both.type, RopeType::yarn);
  EXPECT_EQ(both.theta, 5000.0);
}

TEST(ConfigOverrides, reach_the_layers_that_the_older_spelling_means) {
  constexpr std::string_view kGemma = R"({"architectures": ["Gemma3ForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100,
    "max_position_embeddings": 2048, "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})";
  const ModelConfig config =
      parse_model_config(kGemma,
                         "config.json",
                         {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                          {"rope_local_base_freq", 20000}})
          .config;
  EXPECT_EQ(config.rope.type, RopeType::linear);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.sliding_rope->type, RopeType::standard);
  EXPECT_EQ(config.sliding_rope->theta, 20000);
}

}  // namespace
}  // namespace reprise::weights
