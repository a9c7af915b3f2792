#include "reprise/lora/adapter_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reprise/base/json.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::lora {
namespace {

class AdapterConfigFile : public ::testing::Test {
 protected:
  AdapterConfig read(std::string_view text, int64_t max_rank = 16) {
    directory_.write("adapter_config.json", text);
    return read_adapter_config(weights::ModelDirectory(directory_.path()), max_rank);
  }
  std::string message(std::string_view text) {
    return weights::message_of([&] { (void)read(text); });
  }

  weights::TempDirectory directory_;
};

TEST_F(AdapterConfigFile, gives_rank_and_scale) {
  const AdapterConfig config = read(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 32})");
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.scale_of("model.layers.0.q_proj", 8), 4);
}

TEST_F(AdapterConfigFile, divides_by_the_root_of_the_rank_with_rslora) {
  const AdapterConfig config = read(R"({"r": 9, "lora_alpha": 6, "use_rslora": true})");
  EXPECT_EQ(config.scale_of("q_proj", 9), 2);
}

TEST_F(AdapterConfigFile, accepts_what_peft_writes_for_a_plain_adapter) {
  EXPECT_EQ(read(R"({"alora_invocation_tokens": null, "alpha_pattern": {}, "auto_mapping": null,
    "base_model_name_or_path": "m", "bias": "none", "corda_config": null, "eva_config": null,
    "exclude_modules": null, "fan_in_fan_out": false, "inference_mode": true,
    "init_lora_weights": true, "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 16, "lora_bias": false,
    "lora_dropout": 0.0, "megatron_config": null, "modules_to_save": null, "peft_type": "LORA",
    "qalora_group_size": 16, "r": 8, "rank_pattern": {}, "revision": null,
    "target_modules": ["q_proj"], "target_parameters": null, "task_type": "CAUSAL_LM",
    "trainable_token_indices": null, "use_dora": false, "use_qalora": false,
    "use_rslora": false})")
                .rank,
            8);
}

TEST_F(AdapterConfigFile, refuses_each_feature_that_would_change_the_result_by_its_name) {
  for (const std::string member : {R"("use_dora": true)",
                                   R"("lora_bias": true)",
                                   R"("bias": "all")",
                                   R"("trainable_token_indices": [1])",
                                   R"("rank_pattern": {"q_proj": 17})",
                                   R"("rank_pattern": [4])",
                                   R"("alpha_pattern": {".*q_proj": 4})",
                                   R"("layer_replication": [[0, 1]])",
                                   R"("target_parameters": ["experts.w"])",
                                   R"("alora_invocation_tokens": [5])",
                                   R"("init_lora_weights": "pissa")",
                                   R"("peft_type": "IA3")"}) {
    const std::string key = member.substr(1, member.find('"', 1) - 1);
    const std::string said = message(R"({"r": 8, "lora_alpha": 8, )" + member + "}");
    EXPECT_NE(said.find(key + ":"), std::string::npos) << said;
  }
}

TEST_F(AdapterConfigFile, gives_modules_the_alpha_and_the_ranks_of_patterns) {
  const AdapterConfig config = read(R"({"r": 8, "lora_alpha": 16, "modules_to_save": ["lm_head"],
    "rank_pattern": {"q_proj": 4, "model.layers.1.v_proj": 2},
    "alpha_pattern": {"q_proj": 4, "model.layers.1.v_proj": 6}})");
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.other_ranks, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(config.scale_of("model.layers.0.q_proj", 4), 1);
  EXPECT_EQ(config.scale_of("model.layers.1.v_proj", 2), 3);
  EXPECT_EQ(config.scale_of("model.layers.0.v_proj", 8), 2);
  EXPECT_EQ(config.scale_of("model.layers.0.my_q_proj", 8), 2) << "not the end behind a dot";
  const AdapterConfig first = read(R"({"r": 8, "lora_alpha": 16,
    "alpha_pattern": {"layers.0.q_proj": 8, "q_proj": 32}})");
  EXPECT_EQ(first.scale_of("model.layers.0.q_proj", 8), 1) << "the first that fits";
  EXPECT_EQ(first.scale_of("model.layers.1.q_proj", 8), 4);
  EXPECT_EQ(read(R"({"r": 8, "lora_alpha": 16, "alpha_pattern": {".*q_proj": 16}})")
                .scale_of("model.layers.0.q_proj", 8),
            2)
      << "a pattern that changes nothing";
}

TEST_F(AdapterConfigFile, refuses_a_rank_above_the_limit_and_says_the_option) {
  const std::string said = message(R"({"r": 32, "lora_alpha": 8})");
  EXPECT_NE(said.find("--max-lora-rank 32"), std::string::npos) << said;
  EXPECT_EQ(read(R"({"r": 32, "lora_alpha": 8})", 32).rank, 32);
}

TEST_F(AdapterConfigFile, refuses_files_that_are_no_configuration) {
  for (const char* text : {"",
                           "[]",
                           "{",
                           R"({"lora_alpha": 8})",
                           R"({"r": 0})",
                           R"({"r": "8"})",
                           R"({"r": 8, "lora_alpha": 1e400})"}) {
    EXPECT_EQ(weights::code_of([&] { (void)read(text); }), "E_CONFIG") << text;
  }
}

}  // namespace
}  // namespace reprise::lora
