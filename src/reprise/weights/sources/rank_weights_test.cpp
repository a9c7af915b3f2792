#include "reprise/weights/sources/rank_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/sources/dummy_weights.h"

namespace reprise::weights {
namespace {

ModelConfig small_config(const std::string& more) {
  return parse_model_config(R"({"vocab_size": 100, "hidden_size": 16, "intermediate_size": 24,
      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 4,
      "max_position_embeddings": 32, "rms_norm_eps": 1e-6, )" +
                                more + "}",
                            "config.json")
      .config;
}

ModelConfig qwen2() {
  return small_config(
      R"("architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "tie_word_embeddings": true)");
}

std::vector<float> values(const WeightSource& source, const std::string& name) {
  std::vector<float> result(size_bytes({DType::f32, source.find(name)->shape}) / sizeof(float));
  source.read(name, DType::f32, std::as_writable_bytes(std::span(result)));
  return result;
}

std::unique_ptr<WeightSource> part_of(const ModelConfig& config, RankOfModel rank) {
  return std::make_unique<RankWeights>(std::make_unique<DummyWeights>(config, 3), config, rank);
}

TEST(ConfigOfRank, divides_heads_and_mlp_and_keeps_the_rest) {
  const ModelConfig whole = qwen2();
  const ModelConfig half = config_of_rank(whole, {.tensor_ranks = 2});
  EXPECT_EQ(half.num_attention_heads, 4);
  EXPECT_EQ(half.num_key_value_heads, 1);
  EXPECT_EQ(half.intermediate_size, 12);
  EXPECT_EQ(half.tensor_parallel_size, 2);
  EXPECT_EQ(half.vocab_size, whole.vocab_size);
  // Two ranks share each key/value head.
  EXPECT_EQ(config_of_rank(whole, {.tensor_ranks = 4}).num_key_value_heads, 1);
  EXPECT_EQ(config_of_rank(whole, {}), whole);
}

TEST(ConfigOfRank, refuses_by_name_what_it_cannot_divide) {
  const auto refusal = [](const ModelConfig& config, int64_t ranks) -> std::string {
    try {
      (void)config_of_rank(config, {.tensor_ranks = ranks});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(qwen2(), 3), HasSubstr("8 attention heads"));
  EXPECT_THAT(refusal(qwen2(), 16), HasSubstr("8 attention heads"));
  ModelConfig config = qwen2();
  config.intermediate_size = 25;
  EXPECT_THAT(refusal(config, 2), HasSubstr("25 rows of the MLP"));
  config = qwen2();
  config.num_key_value_heads = 3;
  EXPECT_THAT(refusal(config, 4), HasSubstr("3 key/value heads"));
  config = qwen2();
  config.moe = MixtureOfExperts{.num_experts = 4, .intermediate_size = 21};
  config.moe_layers = {true, true};
  EXPECT_THAT(refusal(config, 2), HasSubstr("21 rows of each expert"));
  EXPECT_THAT(refusal(config, 2), HasSubstr("--enable-expert-parallel"));
  config.moe->shared_intermediate_size = 3;
  EXPECT_THAT(refusal(config, 2), HasSubstr("3 rows of the shared expert"));
  config = qwen2();
  config.qk_norm = QkNorm::all_heads;
  EXPECT_THAT(refusal(config, 2), HasSubstr("all heads"));
}

TEST(ConfigOfRank, divides_experts_as_evenly_as_possible) {
  const auto counts = [](int64_t experts, int64_t parts) {
    std::vector<int64_t> result;
    int64_t next = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const ExpertRange mine = experts_of_part(experts, part, parts);
      EXPECT_EQ(mine.begin, next);
      result.push_back(mine.count);
      next += mine.count;
    }
    EXPECT_EQ(next, experts);
    return result;
  };
  EXPECT_EQ(counts(8, 4), (std::vector<int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(counts(5, 2), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(counts(7, 4), (std::vector<int64_t>{2, 2, 2, 1}));

  ModelConfig config = qwen2();
  config.moe = MixtureOfExperts{.num_experts = 5, .intermediate_size = 21};
  config.moe_layers = {true, false};
  const ModelConfig second =
      config_of_rank(config, {.rank = 1, .tensor_ranks = 2, .divides_experts = true});
  EXPECT_EQ(second.moe->of_rank, (ExpertRange{.begin = 3, .count = 2}));
  EXPECT_EQ(second.moe->num_experts, 5);
  EXPECT_EQ(second.moe->intermediate_size, 21);  // experts are whole
  EXPECT_EQ(second.intermediate_size, 12);
  // Engines that share experts have all other layers whole.
  const ModelConfig engine =
      config_of_rank(config, {.divides_experts = true, .engine = 1, .engines = 2});
  EXPECT_EQ(engine.moe->of_rank, (ExpertRange{.begin = 3, .count = 2}));
  EXPECT_EQ(engine.moe->engines, 2);
  EXPECT_EQ(engine.num_attention_heads, config.num_attention_heads);
  EXPECT_EQ(config_of_rank(config, {.divides_experts = true}).moe->of_rank, std::nullopt);
}

TEST(ConfigOfRank, refuses_to_divide_experts_that_are_not_there) {
  using ::testing::HasSubstr;
  const auto refusal = [](const ModelConfig& config) -> std::string {
    try {
      (void)config_of_rank(config, {.tensor_ranks = 4, .divides_experts = true});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_THAT(refusal(qwen2()), HasSubstr("--enable-expert-parallel: Qwen2ForCausalLM has no exp"));
  ModelConfig config = qwen2();
  config.moe = MixtureOfExperts{.num_experts = 3, .intermediate_size = 8};
  config.moe_layers = {true, true};
  EXPECT_THAT(refusal(config), HasSubstr("4 ranks are more than the 3 experts"));
}

TEST(ConfigOfRank, gives_a_stage_its_layers_and_its_ranks_their_heads) {
  const ModelConfig config = config_of_rank(qwen2(), {.rank = 3, .tensor_ranks = 2, .stages = 2});
  EXPECT_EQ(config.first_layer(), 1);
  EXPECT_EQ(config.end_layer(), 2);
  EXPECT_EQ(config.tensor_rank, 1);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_ranks(), 4);
}

// The expected result is the stored tensor, cut in the test itself.
TEST(RankWeights, cut_rows_and_columns_of_each_rank) {
  const ModelConfig config = qwen2();
  const DummyWeights whole(config, 3);
  const std::string layer = "model.layers.1.";
  for (const int64_t size : {2, 4}) {
    for (int64_t rank = 0; rank < size; ++rank) {
      SCOPED_TRACE(testing::Message() << rank << " of " << size);
      const auto part = part_of(config, {rank, size});
      const auto expect_rows = [&](const std::string& name, int64_t begin, int64_t count) {
        const TensorSpec& spec = *whole.find(name);
        const int64_t width = spec.shape.size() == 2 ? spec.shape[1] : 1;
        const std::vector<float> all = values(whole, name);
        EXPECT_EQ(
            values(*part, name),
            std::vector<float>(all.begin() + begin * width, all.begin() + (begin + count) * width))
            << name;
      };
      const int64_t q = 32 / size;
      expect_rows(layer + "self_attn.q_proj.weight", rank * q, q);
      expect_rows(layer + "self_attn.q_proj.bias", rank * q, q);
      const int64_t kv_head = rank * 2 / size;
      expect_rows(layer + "self_attn.k_proj.weight", kv_head * 4, 4);
      expect_rows(layer + "self_attn.v_proj.bias", kv_head * 4, 4);
      const int64_t mlp = 24 / size;
      expect_rows(layer + "mlp.gate_proj.weight", rank * mlp, mlp);
      expect_rows(layer + "mlp.up_proj.weight", rank * mlp, mlp);
      // Columns.
      const std::vector<float> down = values(whole, layer + "mlp.down_proj.weight");
      const std::vector<float> mine = values(*part, layer + "mlp.down_proj.weight");
      ASSERT_EQ(mine.size(), static_cast<size_t>(16 * mlp));
      for (int64_t row = 0; row < 16; ++row) {
        for (int64_t column = 0; column < mlp; ++column) {
          ASSERT_EQ(mine[static_cast<size_t>(row * mlp + column)],
                    down[static_cast<size_t>(row * 24 + rank * mlp + column)]);
        }
      }
      // Whole.
      EXPECT_EQ(values(*part, "model.norm.weight"), values(whole, "model.norm.weight"));
      EXPECT_EQ(values(*part, "model.embed_tokens.weight"),
                values(whole, "model.embed_tokens.weight"));
    }
  }
}

TEST(RankWeights, have_a_head_padded_with_zeros_also_where_it_is_tied) {
  const ModelConfig config = qwen2();
  const std::vector<float> embedding = values(DummyWeights(config, 3), "model.embed_tokens.weight");
  const auto part = part_of(config, {1, 2});
  ASSERT_EQ(part->find("lm_head.weight")->shape, (std::vector<int64_t>{64, 16}));
  const std::vector<float> head = values(*part, "lm_head.weight");
  for (size_t i = 0; i < head.size(); ++i) {
    const size_t stored = size_t{64} * 16 + i;
    ASSERT_EQ(head[i], stored < embedding.size() ? embedding[stored] : 0.0F);
  }
}

TEST(RankWeights, add_the_bias_of_a_row_parallel_projection_once) {
  const ModelConfig config = small_config(
      R"("architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": true)");
  const std::string name = "model.layers.0.self_attn.o_proj.bias";
  const std::vector<float> bias = values(DummyWeights(config, 3), name);
  EXPECT_EQ(values(*part_of(config, {0, 2}), name), bias);
  EXPECT_EQ(values(*part_of(config, {1, 2}), name), std::vector<float>(bias.size(), 0.0F));
}

TEST(RankWeights, cut_stacked_tensors_part_by_part) {
  const ModelConfig config =
      small_config(R"("architectures": ["Phi3ForCausalLM"], "model_type": "phi3")");
  const std::string name = "model.layers.0.mlp.gate_up_proj.weight";
  const std::vector<float> all = values(DummyWeights(config, 3), name);
  const std::vector<float> mine = values(*part_of(config, {1, 2}), name);
  ASSERT_EQ(mine.size(), all.size() / 2);
  constexpr size_t kHalf = size_t{12} * 16;
  for (size_t i = 0; i < kHalf; ++i) {
    ASSERT_EQ(mine[i], all[kHalf + i]);              // gate
    ASSERT_EQ(mine[kHalf + i], all[3 * kHalf + i]);  // up
  }
}

}  // namespace
}  // namespace reprise::weights
