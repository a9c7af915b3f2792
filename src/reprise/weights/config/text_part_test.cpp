#include "reprise/weights/config/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The published config, with fewer members.
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

// The published config of Scout, with another number of layers and fewer members.
constexpr const char* kLlama4 = R"({"architectures": ["Llama4ForConditionalGeneration"],
  "boi_token_index": 200080, "eoi_token_index": 200081, "image_token_index": 200092,
  "model_type": "llama4", "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "text_config": {"attention_chunk_size": 8192, "attn_temperature_tuning": 4, "bos_token_id": 200000,
    "eos_token_id": [200001, 200007, 200008], "floor_scale": 8192, "attn_scale": 0.1,
    "for_llm_compressor": false, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
    "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "max_position_embeddings": 10485760, "model_type": "llama4_text", "no_rope_layers": [],
    "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 8,
    "num_key_value_heads": 8, "num_local_experts": 16, "output_router_logits": false,
    "pad_token_id": 200018, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 16.0,
    "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"}, "rope_theta": 500000.0, "use_qk_norm": true, "vocab_size": 202048},
  "vision_config": {"model_type": "llama4_vision_model", "hidden_size": 1408}})";

TEST(TextPart, of_llama_4_is_read_as_published) {
  const ModelConfig config = parse_model_config(kLlama4, "config.json").config;
  EXPECT_EQ(config.architecture, Architecture::llama4);
  EXPECT_EQ(config.vocab_size, 202048);
  EXPECT_EQ(config.dtype, DType::bf16);
  EXPECT_EQ(config.rope.type, RopeType::llama3);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(200001, 200007, 200008));
  ASSERT_TRUE(config.attention_temperature.has_value());
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    EXPECT_TRUE(config.is_moe_layer(layer));
    EXPECT_EQ(config.rotates(layer), layer % 4 != 3) << layer;  // no_rope_layers: [] is the default
    EXPECT_EQ(config.chunk_of_layer(layer).has_value(), layer % 4 != 3) << layer;
  }
}

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

std::string text_part_refusal(const Json& config) {
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
  EXPECT_EQ(text_part_refusal(config), "model_type");
  config["text_config"] = 5;
  EXPECT_EQ(text_part_refusal(config), "text_config");
  EXPECT_EQ(text_part_refusal({{"architectures", {"SomeForConditionalGeneration"}}}),
            "architectures");
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
