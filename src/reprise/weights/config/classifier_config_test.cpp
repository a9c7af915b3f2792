#include "reprise/weights/config/classifier_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ClassifierConfig read(const Json& json) {
  return read_classifier_config(ConfigReader(json, "config.json"));
}

std::string refused_field(const Json& json) {
  try {
    (void)read(json);
  } catch (const FileError& error) {
    return error.field();
  }
  return "accepted";
}

TEST(ClassifierConfig, has_the_labels_of_id2label_or_two) {
  EXPECT_THAT(read(Json::object()).labels, ElementsAre("LABEL_0", "LABEL_1"));
  const ClassifierConfig named = read({{"id2label", {{"0", "bad"}, {"1", "good"}, {"2", "odd"}}}});
  EXPECT_EQ(named.num_labels, 3);
  EXPECT_THAT(named.labels, ElementsAre("bad", "good", "odd"));
  EXPECT_THAT(read({{"num_labels", 1}}).labels, ElementsAre("LABEL_0"));
}

// Functions are looked up in the order of vLLM's get_act_fn.
TEST(ClassifierConfig, takes_the_function_of_vllm) {
  using enum ClassifierActivation;
  EXPECT_EQ(read({{"num_labels", 1}}).activation, sigmoid);
  EXPECT_EQ(read({{"num_labels", 3}}).activation, softmax);
  EXPECT_EQ(read({{"problem_type", "regression"}}).activation, none);
  EXPECT_EQ(read({{"problem_type", "multi_label_classification"}}).activation, sigmoid);
  const char* identity = "torch.nn.modules.linear.Identity";
  EXPECT_EQ(read({{"sbert_ce_default_activation_function", identity}}).activation, none);
  EXPECT_EQ(read({{"sentence_transformers", {{"activation_fn", identity}}}}).activation, none);
  EXPECT_EQ(read({{"problem_type", "single_label_classification"},
                  {"sbert_ce_default_activation_function", identity}})
                .activation,
            softmax);
}

TEST(ClassifierConfig, may_compare_two_tokens) {
  const ClassifierConfig config = read({{"classifier_from_token", {"no", "yes"}}});
  EXPECT_THAT(config.from_tokens, ElementsAre("no", "yes"));
  EXPECT_EQ(config.num_labels, 1);
  EXPECT_EQ(config.num_rows(), 2);
  EXPECT_EQ(config.activation, ClassifierActivation::sigmoid);
  EXPECT_THAT(read(Json::object()).from_tokens, IsEmpty());
}

TEST(ClassifierConfig, is_refused_by_the_name_of_the_member) {
  EXPECT_EQ(refused_field({{"num_labels", 0}}), "num_labels");
  EXPECT_EQ(refused_field({{"num_labels", 1 << 20}}), "num_labels");
  EXPECT_EQ(refused_field({{"id2label", 5}}), "id2label");
  EXPECT_EQ(refused_field({{"id2label", Json::object()}}), "id2label");
  EXPECT_EQ(refused_field({{"classifier_from_token", {"no"}}}), "classifier_from_token");
  EXPECT_EQ(refused_field({{"classifier_from_token", {1, 2}}}), "classifier_from_token");
  EXPECT_EQ(refused_field({{"classifier_from_token", {"a", "b"}}, {"method", "other"}}), "method");
  EXPECT_EQ(refused_field({{"sbert_ce_default_activation_function", "os.system"}}),
            "sbert_ce_default_activation_function");
}

TEST(ClassifierConfig, is_that_of_classes_with_the_ending) {
  const ModelConfig config =
      parse_model_config(R"({"architectures": ["LlamaForSequenceClassification"], "vocab_size": 8,
        "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 64})",
                         "config.json")
          .config;
  EXPECT_EQ(config.architecture, Architecture::llama);
  ASSERT_TRUE(config.classifier.has_value());
  EXPECT_EQ(config.second_text_offset(), 0);
}

}  // namespace
}  // namespace reprise::weights
