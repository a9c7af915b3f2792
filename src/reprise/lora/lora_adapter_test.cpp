#include "reprise/lora/lora_adapter.h"

#include <gtest/gtest.h>

#include "tests/support/lora/adapter_fixture.h"
#include "tests/support/lora/layer_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::lora {
namespace {

using testing::AdapterFiles;
using testing::AdapterMatrix;

class LoraAdapterFolder : public ::testing::Test {
 protected:
  std::shared_ptr<const LoraAdapter> load(const AdapterFiles& files) {
    return LoraAdapter::load("a", files.write(folder_.path()), layers_.slots.layers(), 1);
  }
  std::string code(const AdapterFiles& files) {
    return weights::code_of([&] { (void)load(files); });
  }
  static std::vector<float> floats(const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  weights::TempDirectory folder_;
  testing::TwoLoraLayers layers_{/*max_loras=*/2, /*max_rank=*/6};
};

TEST(LoraParts, are_the_neighbours_of_one_module) {
  const std::vector<LoraModule> modules = {{"q_proj", 8}, {"k_proj", 2}, {"v_proj", 2}};
  const std::vector<LoraPart> stack = {{0, 0, 8}, {1, 8, 10}, {2, 10, 12}};
  EXPECT_EQ(parts_of(modules, {}), stack);
  EXPECT_EQ(parts_of(modules, {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10}), stack);
  // Two heads of two rows, each with two gates after it in the checkpoint; all gates come last.
  const std::vector<LoraPart> gated = {{0, 0, 4}, {1, 4, 6}, {2, 6, 8}, {0, 8, 12}};
  EXPECT_EQ(parts_of(modules, {0, 1, 4, 5, 8, 9, 10, 11, 2, 3, 6, 7}), gated);
}

TEST_F(LoraAdapterFolder, lays_modules_of_a_stack_side_by_side_with_the_scale_in_b) {
  const AdapterFiles files = AdapterFiles(4, 8)
                                 .add_module("model.layers.0.q_proj", 5, 8, 1)
                                 .add_module("model.layers.0.v_proj", 3, 8, 2);
  const auto adapter = load(files);
  const std::vector<float> a = floats(adapter->image(0).a);  // [2 * 6, 8]
  const std::vector<float> b = floats(adapter->image(0).b);  // [6, 8]
  const AdapterMatrix& v_a =
      files.tensors.at("base_model.model.model.layers.0.v_proj.lora_A.weight");
  const AdapterMatrix& v_b =
      files.tensors.at("base_model.model.model.layers.0.v_proj.lora_B.weight");
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(a.at(static_cast<size_t>((6 + rank) * 8 + i)), v_a.at(rank, i));
    }
    for (int64_t out = 0; out < 3; ++out) {
      EXPECT_EQ(b.at(static_cast<size_t>(rank * 8 + 5 + out)), 2 * v_b.at(out, rank));
    }
  }
  for (size_t i = 4 * 8; i < 6 * 8; ++i) EXPECT_EQ(a.at(i), 0);  // ranks 4 and 5 of q_proj
  EXPECT_TRUE(adapter->image(1).a.empty());
}

TEST_F(LoraAdapterFolder, puts_rows_of_b_into_the_order_of_the_loaded_weight) {
  const AdapterFiles files = AdapterFiles(4, 4).add_module("model.layers.0.down_proj", 4, 6, 3);
  const std::vector<float> b = floats(load(files)->image(1).b);  // [6, 4]
  const AdapterMatrix& stored =
      files.tensors.at("base_model.model.model.layers.0.down_proj.lora_B.weight");
  const std::vector<int64_t> rows = {0, 2, 1, 3};  // of TwoLoraLayers
  for (size_t output = 0; output < 4; ++output) EXPECT_EQ(b.at(output), stored.at(rows[output], 0));
}

TEST_F(LoraAdapterFolder, knows_the_names_of_language_models_in_models_that_read_images_too) {
  const AdapterFiles plain = AdapterFiles(4, 8).add_module("model.layers.0.q_proj", 5, 8, 1);
  const auto expected = load(plain);
  for (const char* prefix : {"model.language_model.", "language_model.model."}) {
    const AdapterFiles files =
        AdapterFiles(4, 8).add_module(std::string(prefix) + "layers.0.q_proj", 5, 8, 1);
    const auto adapter = load(files);
    EXPECT_EQ(adapter->image(0).a, expected->image(0).a) << prefix;
    EXPECT_EQ(adapter->image(0).b, expected->image(0).b) << prefix;
  }
  const std::string said = weights::message_of(
      [&] { (void)load(AdapterFiles().add_module("model.visual.blocks.0.qkv", 5, 8, 1)); });
  EXPECT_NE(said.find("not loaded"), std::string::npos) << said;
}

TEST_F(LoraAdapterFolder, gives_modules_ranks_and_alphas_of_their_own) {
  AdapterFiles files = AdapterFiles(4, 8).add_module("model.layers.0.q_proj", 5, 8, 1);
  files.config["r"] = 2;
  files.add_module("model.layers.0.v_proj", 3, 8, 2);
  files.config["rank_pattern"] = {{"q_proj", 4}};
  files.config["alpha_pattern"] = {{"q_proj", 12}};
  const std::vector<float> b = floats(load(files)->image(0).b);  // [6, 8]
  const AdapterMatrix& q = files.tensors.at("base_model.model.model.layers.0.q_proj.lora_B.weight");
  const AdapterMatrix& v = files.tensors.at("base_model.model.model.layers.0.v_proj.lora_B.weight");
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (int64_t out = 0; out < 5; ++out) {
      EXPECT_EQ(b.at(static_cast<size_t>(rank * 8 + out)), 3 * q.at(out, rank));
    }
    for (int64_t out = 0; out < 3; ++out) {
      EXPECT_EQ(b.at(static_cast<size_t>(rank * 8 + 5 + out)), rank < 2 ? 4 * v.at(out, rank) : 0);
    }
  }
}

TEST_F(LoraAdapterFolder, refuses_modules_that_are_saved_whole_only_if_the_file_has_them) {
  AdapterFiles files = AdapterFiles(4, 8).add_module("model.layers.0.q_proj", 5, 8, 1);
  files.config["modules_to_save"] = {"lm_head"};
  EXPECT_EQ(code(files), "accepted");
  files.tensors["base_model.model.lm_head.weight"] = {1, 1, {1.0F}};
  const std::string said = weights::message_of([&] { (void)load(files); });
  EXPECT_NE(said.find("modules_to_save"), std::string::npos) << said;
}

TEST_F(LoraAdapterFolder, refuses_modules_that_the_model_does_not_offer_and_names_those_it_does) {
  const AdapterFiles files = AdapterFiles().add_module("model.embed_tokens", 5, 8, 1);
  EXPECT_EQ(code(files), "E_LORA_TARGET");
  const std::string said = weights::message_of([&] { (void)load(files); });
  EXPECT_NE(said.find("down_proj, q_proj, v_proj"), std::string::npos) << said;
}

TEST_F(LoraAdapterFolder, refuses_wrong_shapes_half_adapters_and_empty_files) {
  EXPECT_EQ(code(AdapterFiles().add_module("model.layers.0.q_proj", 5, 9, 1)), "E_SHAPE");
  EXPECT_EQ(code(AdapterFiles().add_module("model.layers.0.q_proj", 6, 8, 1)), "E_SHAPE");
  AdapterFiles other_rank = AdapterFiles(4, 8).add_module("model.layers.0.q_proj", 5, 8, 1);
  other_rank.config["r"] = 3;
  EXPECT_EQ(code(other_rank), "E_SHAPE");
  AdapterFiles half = AdapterFiles().add_module("model.layers.0.q_proj", 5, 8, 1);
  half.tensors.erase(half.tensors.begin());
  EXPECT_EQ(code(half), "E_MISSING");
  EXPECT_EQ(code(AdapterFiles()), "E_LORA_TARGET");
}

TEST_F(LoraAdapterFolder, refuses_a_folder_without_the_files) {
  EXPECT_EQ(weights::code_of([&] {
              (void)LoraAdapter::load("a", folder_.path() / "nowhere", layers_.slots.layers(), 1);
            }),
            "E_MISSING");
  const std::string said = weights::message_of([&] {
    (void)LoraAdapter::load("sql", folder_.path() / "nowhere", layers_.slots.layers(), 1);
  });
  EXPECT_NE(said.find("'sql'"), std::string::npos) << said;
  (void)AdapterFiles().write(folder_.path());
  std::filesystem::remove(folder_.path() / "adapter_model.safetensors");
  EXPECT_EQ(weights::code_of(
                [&] { (void)LoraAdapter::load("a", folder_.path(), layers_.slots.layers(), 1); }),
            "E_MISSING");
}

}  // namespace
}  // namespace reprise::lora
