#include "reprise/weights/sources/renamed_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reprise/base/error.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/sources/dummy_weights.h"

namespace reprise::weights {
namespace {

using ::testing::IsEmpty;

ModelConfig gpt2() {
  return parse_model_config(
             R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 50, "n_embd": 16,
      "n_layer": 1, "n_head": 2, "n_positions": 32})",
             "config.json")
      .config;
}

// Dummy weights whose names lack the first part.
std::unique_ptr<WeightSource> saved_without_head(const ModelConfig& config) {
  auto dummy = std::make_unique<DummyWeights>(config, 1);
  std::map<std::string, std::string, std::less<>> short_names;
  for (const std::string_view name : dummy->names()) {
    short_names.emplace(name.substr(name.find('.') + 1), name);
  }
  return std::make_unique<RenamedWeights>(std::move(dummy), std::move(short_names));
}

TEST(RenamedWeights, give_a_checkpoint_of_a_decoder_without_head_the_names_of_its_class) {
  const ModelConfig config = gpt2();
  std::unique_ptr<WeightSource> source = saved_without_head(config);
  EXPECT_TRUE(source->has("h.0.attn.c_attn.weight"));
  EXPECT_THROW((void)verify_weights(config, *source), FileError);
  source = with_class_names(std::move(source), config);
  EXPECT_THAT(verify_weights(config, *source), IsEmpty());
  const DummyWeights dummy(config, 1);
  std::vector<float> got(16 * 48);
  std::vector<float> want(16 * 48);
  constexpr std::string_view kName = "transformer.h.0.attn.c_attn.weight";
  source->read(kName, DType::f32, std::as_writable_bytes(std::span(got)));
  dummy.read(kName, DType::f32, std::as_writable_bytes(std::span(want)));
  EXPECT_EQ(got, want);
  EXPECT_EQ(source->stored_bytes(kName), dummy.stored_bytes(kName));
  EXPECT_THROW(source->read("h.0.attn.c_attn.weight", DType::f32, {}), FileError);
}

// Dummy weights, saved under other names.
template <typename Rename>
std::unique_ptr<WeightSource> saved_as(const ModelConfig& config, const Rename& rename) {
  auto dummy = std::make_unique<DummyWeights>(config, 1);
  std::map<std::string, std::string, std::less<>> names;
  for (const std::string_view name : dummy->names()) names.emplace(rename(name), name);
  return std::make_unique<RenamedWeights>(std::move(dummy), std::move(names));
}

TEST(RenamedWeights, know_encoders_inside_of_models_with_a_head_and_the_names_of_tensorflow) {
  const ModelConfig config = parse_model_config(R"({"architectures": ["BertForMaskedLM"],
    "vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 32})",
                                                "config.json")
                                 .config;
  std::unique_ptr<WeightSource> source = saved_as(config, [](std::string_view name) {
    std::string old = "bert." + std::string(name);
    for (const auto& [now, then] : {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"},
                                    {".LayerNorm.bias", ".LayerNorm.beta"}}) {
      if (old.ends_with(now)) old.replace(old.size() - std::strlen(now), std::strlen(now), then);
    }
    return old;
  });
  ASSERT_TRUE(source->has("bert.embeddings.LayerNorm.gamma"));
  source = with_class_names(std::move(source), config);
  EXPECT_THAT(verify_weights(config, *source), IsEmpty());
}

TEST(RenamedWeights, leave_other_sources_alone) {
  const ModelConfig config = gpt2();
  auto dummy = std::make_unique<DummyWeights>(config, 1);
  const WeightSource* before = dummy.get();
  EXPECT_EQ(with_class_names(std::move(dummy), config).get(), before);
}

}  // namespace
}  // namespace reprise::weights
