#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/weights/config/draft_head_config.h"
#include "reprise/weights/sources/draft_head_tensors.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "reprise/weights/sources/renamed_weights.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json llama_json(int num_layers) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 50},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", num_layers},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 8},
          {"max_position_embeddings", 64}};
}

ModelConfig head_test_config(const Json& json) {
  return parse_model_config(json.dump(), "config.json").config;
}

DraftHeadConfig eagle_head(const Json& members,
                           DraftHeadKind kind = DraftHeadKind::eagle3,
                           int num_target_layers = 10) {
  Json json = llama_json(1);
  json.update(members);
  return parse_eagle_config(kind,
                            json.dump(),
                            "head.json",
                            head_test_config(json),
                            head_test_config(llama_json(num_target_layers)));
}

std::string head_refusal(const Json& members, int num_target_layers = 10) {
  try {
    (void)eagle_head(members, DraftHeadKind::eagle3, num_target_layers);
  } catch (const FileError& error) {
    return error.what();
  }
  return "accepted";
}

/// A source whose only tensor is d2t, with these entries.
class OnlyTargetIds final : public WeightSource {
 public:
  OnlyTargetIds(std::vector<int64_t> entries, DType dtype)
      : entries_(std::move(entries)), spec_{dtype, {static_cast<int64_t>(entries_.size())}} {}

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override {
    return name == "d2t" ? &spec_ : nullptr;
  }
  [[nodiscard]] std::vector<std::string_view> names() const override { return {"d2t"}; }
  [[nodiscard]] std::string description() const override { return "entries"; }
  void read(std::string_view, DType dtype, std::span<std::byte> dst) const override {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const auto narrow = static_cast<int32_t>(entries_[i]);
      if (dtype == DType::i64) std::memcpy(&dst[i * 8], &entries_[i], 8);
      if (dtype == DType::i32) std::memcpy(&dst[i * 4], &narrow, 4);
    }
  }

 private:
  std::vector<int64_t> entries_;
  TensorSpec spec_;
};

TEST(DraftHeadConfig, has_the_defaults_of_vllm) {
  const DraftHeadConfig head = eagle_head(Json::object());
  EXPECT_THAT(head.auxiliary_layers, ElementsAre(2, 5, 7));
  EXPECT_EQ(head.feature_size(), 3 * 16);
  EXPECT_EQ(head.draft_vocab_size, 50);
  EXPECT_FALSE(head.norm_before_residual);
  EXPECT_THAT(eagle_head({{"eagle_aux_hidden_state_layer_ids", {9, 1}}}).auxiliary_layers,
              ElementsAre(1, 9));
  EXPECT_THAT(eagle_head({{"eagle_config", {{"eagle_aux_hidden_state_layer_ids", {0, 4, 10}}}}})
                  .auxiliary_layers,
              ElementsAre(0, 4, 10))
      << "10 stands for the result of the last layer";
  EXPECT_THAT(eagle_head(Json::object(), DraftHeadKind::eagle).auxiliary_layers, IsEmpty());
  EXPECT_EQ(eagle_head(Json::object(), DraftHeadKind::eagle).feature_size(), 16);
}

TEST(DraftHeadConfig, names_what_does_not_fit) {
  EXPECT_EQ(head_refusal(Json::object()), "accepted");
  EXPECT_THAT(head_refusal({{"hidden_size", 32}}), HasSubstr("hidden_size"));
  EXPECT_THAT(head_refusal({{"target_hidden_size", 32}}), HasSubstr("target_hidden_size"));
  EXPECT_THAT(head_refusal({{"vocab_size", 51}}), HasSubstr("vocab_size"));
  EXPECT_THAT(head_refusal({{"num_hidden_layers", 2}}), HasSubstr("draft heads have 1 layer"));
  EXPECT_THAT(head_refusal({{"draft_vocab_size", 51}}), HasSubstr("draft_vocab_size"));
  EXPECT_THAT(head_refusal({{"fc_norm", true}}), HasSubstr("fc_norm"));
  EXPECT_THAT(head_refusal({{"num_aux_hidden_states", 4}}), HasSubstr("num_aux_hidden_states"));
  EXPECT_THAT(head_refusal({{"eagle_aux_hidden_state_layer_ids", {-1}}}), HasSubstr("eagle_aux"));
  EXPECT_THAT(head_refusal({{"eagle_aux_hidden_state_layer_ids", {11}}}), HasSubstr("eagle_aux"));
  EXPECT_THAT(head_refusal({{"eagle_aux_hidden_state_layer_ids", "3"}}), HasSubstr("eagle_aux"));
  EXPECT_THAT(head_refusal(Json::object(), 3), HasSubstr("only 3 layers"));
}

TEST(DraftHeadConfig, refuses_a_target_whose_embedding_is_smaller_than_its_hidden_states) {
  const Json json = llama_json(1);
  ModelConfig target = head_test_config(llama_json(10));
  target.embedding_size = 8;
  EXPECT_THROW((void)parse_eagle_config(
                   DraftHeadKind::eagle, json.dump(), "head.json", head_test_config(json), target),
               FileError);
}

TEST(DraftHeadTensors, are_found_under_the_names_of_published_checkpoints) {
  const DraftHeadConfig head = eagle_head({{"draft_vocab_size", 20}});
  std::map<std::string, std::string, std::less<>> published;
  for (const ExpectedTensor& tensor : expected_tensors(head)) {
    std::string name = tensor.name;
    if (name.starts_with("model.layers.0.")) name = "midlayer." + name.substr(15);
    if (name.starts_with("model.")) name = name.substr(6);
    published.emplace(name, tensor.name);
  }
  const auto dummy = [&] {
    return std::make_unique<DummyWeights>(expected_tensors(head), DType::bf16, 1);
  };
  EXPECT_THROW((void)verify_weights(head, RenamedWeights(dummy(), published)), FileError);
  const auto source = with_head_names(std::make_unique<RenamedWeights>(dummy(), published), head);
  EXPECT_THAT(verify_weights(head, *source), IsEmpty());
  EXPECT_EQ(source->find("model.layers.0.self_attn.q_proj.weight")->shape,
            (std::vector<int64_t>{16, 32}))
      << "embedding and hidden state side by side";
  EXPECT_EQ(source->find("model.fc.weight")->shape, (std::vector<int64_t>{16, 48}));
  EXPECT_EQ(source->find("lm_head.weight")->shape, (std::vector<int64_t>{20, 16}));
  EXPECT_FALSE(source->has("model.embed_tokens.weight")) << "the target's takes its place";
}

Json qwen3_next_json() {
  return {{"architectures", {"Qwen3NextForCausalLM"}},
          {"model_type", "qwen3_next"},
          {"vocab_size", 50},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 8},
          {"linear_conv_kernel_dim", 4},
          {"linear_key_head_dim", 8},
          {"linear_value_head_dim", 8},
          {"linear_num_key_heads", 1},
          {"linear_num_value_heads", 2},
          {"num_experts", 4},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 8},
          {"shared_expert_intermediate_size", 8},
          {"mlp_only_layers", {3}},
          {"max_position_embeddings", 64}};
}

std::string mtp_refusal(const Json& json) {
  try {
    (void)mtp_config(json.dump(), "config.json", head_test_config(json));
  } catch (const FileError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(QwenMtpHead, is_a_layer_with_attention_and_experts_under_its_own_names) {
  const Json json = qwen3_next_json();
  const DraftHeadConfig head = mtp_config(json.dump(), "config.json", head_test_config(json));
  EXPECT_TRUE(head.norm_output) << "later steps read normed hidden states";
  EXPECT_EQ(head.model.num_recurrent_layers(), 0);
  EXPECT_EQ(head.model.num_attention_layers(), 1);
  std::map<std::string, std::string, std::less<>> published;
  for (const ExpectedTensor& tensor : expected_tensors(head)) {
    std::string name = tensor.name;
    if (name.starts_with("model.")) name = "mtp." + name.substr(6);
    if (name == "mtp.enorm.weight") name = "mtp.pre_fc_norm_embedding.weight";
    if (name == "mtp.hnorm.weight") name = "mtp.pre_fc_norm_hidden.weight";
    published.emplace(name, tensor.name);
  }
  EXPECT_TRUE(published.contains("mtp.layers.0.mlp.experts.3.down_proj.weight"));
  EXPECT_TRUE(published.contains("mtp.layers.0.self_attn.q_norm.weight"));
  const auto source = with_head_names(
      std::make_unique<RenamedWeights>(
          std::make_unique<DummyWeights>(expected_tensors(head), DType::bf16, 1), published),
      head);
  EXPECT_THAT(verify_weights(head, *source), IsEmpty());
  EXPECT_EQ(source->find("model.fc.weight")->shape, (std::vector<int64_t>{16, 32}));
  EXPECT_FALSE(source->has("lm_head.weight")) << "the target's takes its place";
}

TEST(QwenMtpHead, is_refused_where_there_is_none_or_more_than_one) {
  Json json = qwen3_next_json();
  EXPECT_EQ(mtp_refusal(json), "accepted") << "published configs do not count it";
  json["num_nextn_predict_layers"] = 0;
  EXPECT_THAT(mtp_refusal(json), HasSubstr("this checkpoint has no MTP layer"));
  json["num_nextn_predict_layers"] = 2;
  EXPECT_THAT(mtp_refusal(json), HasSubstr("only one MTP layer"));
  json["model_type"] = "qwen3_5_moe_text";
  json["architectures"] = {"Qwen3_5MoeForCausalLM"};
  EXPECT_EQ(mtp_refusal(json), "accepted") << "Qwen3.5 counts by mtp_num_hidden_layers";
  json["mtp_num_hidden_layers"] = 0;
  EXPECT_THAT(mtp_refusal(json), HasSubstr("mtp_num_hidden_layers"));
  // A model that also reads images has its language model's numbers in a separate object.
  const Json outer = {{"text_config", json}};
  EXPECT_THROW((void)mtp_config(outer.dump(), "config.json", head_test_config(json)), FileError);
  json["mtp_num_hidden_layers"] = 1;
  json["mtp_use_dedicated_embeddings"] = true;
  EXPECT_THAT(mtp_refusal(json), HasSubstr("mtp_use_dedicated_embeddings"));
}

TEST(DraftHeadTensors, name_the_token_of_each_row_of_logits) {
  const DraftHeadConfig head = eagle_head({{"draft_vocab_size", 3}});
  for (const DType dtype : {DType::i64, DType::i32}) {
    EXPECT_THAT(read_target_ids(head, OnlyTargetIds({4, 0, 47}, dtype)), ElementsAre(4, 1, 49));
  }
  const auto code = [&](std::vector<int64_t> entries, DType dtype = DType::i64) {
    try {
      (void)read_target_ids(head, OnlyTargetIds(std::move(entries), dtype));
    } catch (const FileError& error) {
      return std::string(error.code());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(code({0, 0, 48}), "E_VALUE");
  EXPECT_EQ(code({-1, 0, 0}), "E_VALUE");
  EXPECT_EQ(code({0, 0, INT64_MAX}), "E_VALUE");
  EXPECT_EQ(code({0, INT64_MIN, 0}), "E_VALUE");
  EXPECT_EQ(code({0, 0}), "E_SHAPE");
  EXPECT_EQ(code({0, 0, 0}, DType::f32), "E_DTYPE");
  const DummyWeights none(expected_tensors(head), DType::bf16, 1);
  EXPECT_THROW((void)read_target_ids(head, none), FileError) << "which three tokens?";
  EXPECT_THAT(read_target_ids(eagle_head(Json::object()), none), IsEmpty());
}

}  // namespace
}  // namespace reprise::weights
