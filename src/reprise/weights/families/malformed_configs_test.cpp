// Malformed configs and checkpoints of every architecture, from tables that include every
// architecture.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "tests/support/source_dir.h"
#include "tests/support/weights/complete_config.h"

namespace reprise::weights {
namespace {

ModelConfig parsed(const Json& json) {
  return parse_model_config(json.dump(), "config.json").config;
}

/// The member that the refusal names; "" if the config is accepted.
std::string refused_member(const Json& json, ModelConfig& config) {
  try {
    config = parsed(json);
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_CONFIG") << error.what();
    EXPECT_NE(error.field(), "") << error.what();
    return error.field();
  }
  return "";
}

// Members that may be zero: it means that there are no experts.
const std::set<std::pair<std::string_view, std::string_view>> kMayBeZero = {
    {"GraniteMoeHybridForCausalLM", "num_local_experts"},
};

// Members of published configs that other engines read, each with a value that no router of Reprise
// has.
const Json kRouterMembers = {{"scoring_func", "unknown"}, {"topk_method", "unknown"}};

// Classes whose routers have these members.
const std::set<std::string_view> kWithRouterMembers = {"DeepseekV2ForCausalLM",
                                                       "DeepseekV3ForCausalLM",
                                                       "DeepseekV32ForCausalLM",
                                                       "Dots1ForCausalLM",
                                                       "Glm4MoeForCausalLM",
                                                       "Glm4MoeLiteForCausalLM",
                                                       "GlmMoeDsaForCausalLM",
                                                       "KimiLinearForCausalLM",
                                                       "MiMoV2FlashForCausalLM",
                                                       "Mistral4ForCausalLM",
                                                       "SolarOpenForCausalLM"};

// Values of the table that have no effect in complete_config().
const std::set<std::pair<std::string_view, std::string_view>> kWithoutEffect = {
    {"SmolLM3ForCausalLM", "use_sliding_window"},     // there is no window
    {"Ernie4_5_MoeForCausalLM", "moe_norm_min"},      // far below every sum
    {"Lfm2ForCausalLM", "block_ffn_dim_multiplier"},  // rounding up gives the same size
    {"DistilBertModel", "sinusoidal_pos_embds"},      // first values, before the training
    {"BertModel", "tie_word_embeddings"},             // encoders have no lm_head
    {"RobertaModel", "tie_word_embeddings"},
    {"XLMRobertaModel", "tie_word_embeddings"},
    {"CamembertModel", "tie_word_embeddings"},
    {"XLMRobertaXLModel", "tie_word_embeddings"},
    {"DistilBertModel", "tie_word_embeddings"},
    {"ModernBertModel", "tie_word_embeddings"},
};

class MalformedConfigs : public ::testing::TestWithParam<Architecture> {
 protected:
  std::string name_{architecture_name(GetParam())};
  Json complete_ = complete_config(name_);
  ModelConfig sound_ = parsed(complete_);
};

TEST_P(MalformedConfigs, sizes_are_refused_by_name_unless_the_family_does_not_read_them) {
  const std::vector<Json> bad = {
      0, -1, int64_t{1} << 40, 1.5, "many", true, Json::array(), Json::object()};
  std::set<std::string> read;
  for (const auto& [key, value] : complete_.items()) {
    if (key == "architectures") continue;
    std::vector<Json> accepted_values;
    for (const Json& wrong : bad) {
      if (wrong == value) continue;
      if (wrong == 0 && (kMayBeZero.contains({name_, key}) || key.ends_with("token_id"))) continue;
      Json config = complete_;
      config[key] = wrong;
      ModelConfig accepted;
      const std::string member = refused_member(config, accepted);
      if (member.empty()) {
        EXPECT_EQ(accepted, sound_) << key << " " << wrong.dump() << " changes the model";
        accepted_values.push_back(wrong);
      } else {
        read.insert(key);
      }
    }
    // A family that reads the member has to refuse all of these values.
    EXPECT_TRUE(accepted_values.empty() || !read.contains(key))
        << key << " " << Json(accepted_values).dump() << " is accepted";
  }
  EXPECT_TRUE(read.contains("vocab_size"));
  EXPECT_GE(read.size(), 5U);
}

TEST_P(MalformedConfigs, a_missing_size_is_refused_by_its_name_or_has_a_default) {
  int num_required = 0;
  for (const auto& [key, value] : complete_.items()) {
    Json config = complete_;
    config.erase(key);
    ModelConfig accepted;
    const std::string member = refused_member(config, accepted);
    if (member.empty()) {
      for (const ExpectedTensor& tensor : expected_tensors(accepted)) {
        for (const int64_t extent : tensor.shape) {
          EXPECT_GT(extent, 0) << "without " << key << ": " << tensor.name;
        }
      }
    } else {
      ++num_required;
    }
  }
  EXPECT_GT(num_required, 3);
}

TEST_P(MalformedConfigs, windows_need_lengths) {
  for (const char* kind : {"sliding_attention", "chunked_attention"}) {
    Json config = complete_;
    config["layer_types"] =
        std::vector<std::string>(static_cast<size_t>(sound_.num_hidden_layers), kind);
    config["sliding_window"] = nullptr;
    config["attention_chunk_size"] = nullptr;
    ModelConfig accepted;
    const std::string member = refused_member(config, accepted);
    if (!member.empty()) continue;
    for (const LayerType type : accepted.layer_types) {
      if (type == LayerType::sliding_attention) {
        EXPECT_TRUE(accepted.sliding_window) << kind;
      }
      if (type == LayerType::chunked_attention) {
        EXPECT_TRUE(accepted.attention_chunk_size) << kind;
      }
    }
  }
}

// An accepted value must change the model or cause a warning. For each switch, name and factor that
// the class of Transformers reads, the table has a value other than the default.
TEST_P(MalformedConfigs, members_that_the_class_reads_are_not_ignored) {
  static const Json kMembers = parse_json(
      ModelDirectory(source_dir() + "/tests/goldens").read_text("class_members.json", 1 << 20),
      "class_members.json")["members"];
  ASSERT_TRUE(kMembers.contains(name_)) << "run tools/make_class_members.py";
  Json members = kMembers[name_];
  if (kWithRouterMembers.contains(name_)) members.update(kRouterMembers);
  Json base = complete_;
  if (name_ == "NomicBertModel") base.erase("n_embd");  // the names that Transformers has
  const ModelConfig sound = parsed(base);
  for (const auto& [key, other] : members.items()) {
    Json config = base;
    const bool is_that = base.contains(key) && base[key] == other;
    config[key] = is_that ? Json(!other.get<bool>()) : other;
    ModelConfig accepted;
    if (!refused_member(config, accepted).empty()) continue;
    const bool is_told = !parse_model_config(config.dump(), "config.json").warnings.empty();
    const bool has_effect = accepted != sound || is_told;
    EXPECT_NE(has_effect, kWithoutEffect.contains({name_, key})) << key << " " << config[key];
  }
}

// Includes routers, states and biases: every tensor that a model needs.
TEST_P(MalformedConfigs, each_tensor_that_a_checkpoint_lacks_is_named) {
  const std::vector<ExpectedTensor> all = expected_tensors(sound_);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].presence == Presence::optional) continue;
    std::vector<ExpectedTensor> rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    try {
      (void)verify_weights(sound_, DummyWeights(rest, DType::f32, 1));
      ADD_FAILURE() << all[i].name << " is not missed";
    } catch (const FileError& error) {
      EXPECT_EQ(error.code(), "E_MISSING");
      EXPECT_EQ(error.field(), all[i].name);
    }
  }
}

TEST_P(MalformedConfigs, experts_have_a_router_in_each_layer) {
  if (!sound_.moe) return;
  int64_t num_layers = 0;
  for (int64_t layer = 0; layer < sound_.num_hidden_layers; ++layer) {
    num_layers += static_cast<int64_t>(sound_.is_moe_layer(layer));
  }
  int64_t num_routers = 0;
  for (const ExpectedTensor& tensor : expected_tensors(sound_)) {
    const bool is_router =
        tensor.shape == std::vector<int64_t>{sound_.moe->num_experts, sound_.hidden_size} &&
        tensor.presence == Presence::required;
    num_routers += static_cast<int64_t>(is_router);
  }
  EXPECT_GE(num_routers, num_layers);
  EXPECT_GT(num_layers, 0);
}

INSTANTIATE_TEST_SUITE_P(Every,
                         MalformedConfigs,
                         ::testing::ValuesIn(kAllArchitectures),
                         [](const auto& param_info) {
                           return std::string(architecture_name(param_info.param));
                         });

}  // namespace
}  // namespace reprise::weights
