#include "reprise/weights/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "reprise/weights/model_config.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As published, but for a shorter list of members.
constexpr const char* kGemma3 = R"({"architectures": ["Gemma3ForConditionalGeneration"],
  "model_type": "gemma3", "eos_token_id": [1, 106], "torch_dtype": "bfloat16",
  "vision_config": {"hidden_size": 1152},
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                  "num_hidden_layers": 34, "sliding_window": 1024,
                  "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})";
constexpr const char* kQwen25 = R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"],
  "model_type": "qwen2_5_vl", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 11008,
  "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
  "max_position_embeddings": 128000, "tie_word_embeddings": true, "vision_config": {"depth": 32},
  "rope_theta": 1000000.0, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}})";

TEST(TextPart, of_gemma_3_has_what_its_class_has_by_default) {
  const LoadedModelConfig loaded = parse_model_config(kGemma3, "config.json");
  EXPECT_EQ(loaded.config.architecture, Architecture::gemma3);
  EXPECT_EQ(loaded.config.vocab_size, 262208);
  EXPECT_EQ(loaded.config.num_attention_heads, 8);
  EXPECT_EQ(loaded.config.num_key_value_heads, 4);
  EXPECT_EQ(loaded.config.head_dim, 256);
  EXPECT_EQ(loaded.config.rope.factor, 8.0);
  EXPECT_THAT(loaded.config.eos_token_ids, ElementsAre(1, 106));
  EXPECT_EQ(loaded.config.dtype, DType::bf16);
  EXPECT_THAT(loaded.warnings, ElementsAre(HasSubstr("only the language model of Gemma3For")));
}

TEST(TextPart, may_be_the_outer_object_itself) {
  const LoadedModelConfig loaded = parse_model_config(kQwen25, "config.json");
  EXPECT_EQ(loaded.config.architecture, Architecture::qwen2);
  EXPECT_TRUE(loaded.config.qkv_bias);
  EXPECT_TRUE(loaded.config.tie_word_embeddings);
  EXPECT_EQ(loaded.config.rope.type, RopeType::standard);
}

TEST(TextPart, keeps_its_own_members) {
  Json config = parse_json(kGemma3, "config.json");
  config["text_config"]["vocab_size"] = 500;
  config["text_config"]["eos_token_id"] = 7;
  const LoadedModelConfig loaded = parse_model_config(config.dump(), "config.json");
  EXPECT_EQ(loaded.config.vocab_size, 500);
  EXPECT_THAT(loaded.config.eos_token_ids, ElementsAre(7));
}

std::string refusal(const Json& config) {
  try {
    (void)parse_model_config(config.dump(), "config.json");
  } catch (const FileError& error) {
    return error.field();
  }
  return "accepted";
}

TEST(TextPart, is_refused_by_name_if_it_is_no_model_that_there_is) {
  Json config = parse_json(kGemma3, "config.json");
  config["text_config"]["model_type"] = "gemma99_text";
  EXPECT_EQ(refusal(config), "model_type");
  config["text_config"] = 5;
  EXPECT_EQ(refusal(config), "text_config");
  EXPECT_EQ(refusal({{"architectures", {"SomeForConditionalGeneration"}}}), "architectures");
}

TEST(TextPart, leaves_other_configs_alone) {
  const Json config = {{"architectures", {"LlamaForCausalLM"}}, {"text_config", {{"a", 1}}}};
  std::vector<std::string> warnings;
  EXPECT_EQ(text_part_of_config(config, "config.json", warnings), config);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(TextPart, gives_tensors_their_names_in_the_language_model) {
  EXPECT_EQ(name_in_text_part("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(name_in_text_part("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(name_in_text_part("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(name_in_text_part("model.layers.0.mlp.up_proj.weight"),
            "model.layers.0.mlp.up_proj.weight");
  for (const char* other : {"visual.blocks.0.norm1.weight",
                            "model.vision_tower.embeddings.patch.bias",
                            "multi_modal_projector.linear_1.weight",
                            "mtp.layers.0.norm.weight"}) {
    EXPECT_EQ(name_in_text_part(other), "");
  }
}

}  // namespace
}  // namespace reprise::weights
