#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "tests/support/weights/gguf_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights::gguf {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;
constexpr uint64_t kQ8Block = 34;  // bytes

// Blocks with the scale 1 whose first code is the number of the block.
std::string numbered_blocks(uint64_t count) {
  std::string bytes(count * kQ8Block, '\0');
  for (uint64_t i = 0; i < count; ++i) {
    bytes[i * kQ8Block + 1] = 0x3c;
    bytes[i * kQ8Block + 2] = static_cast<char>(i);
  }
  return bytes;
}

/// A file with three experts of 32 rows and 32 inputs.
GgufBytes mixture_file(const std::string& architecture) {
  const std::string prefix = architecture + ".";
  GgufBytes file;
  file.string("general.architecture", architecture)
      .integer(prefix + "block_count", 1)
      .integer(prefix + "context_length", 64)
      .integer(prefix + "embedding_length", 32)
      .integer(prefix + "feed_forward_length", 64)
      .integer(prefix + "attention.head_count", 2)
      .real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F)
      .integer(prefix + "expert_count", 3)
      .integer(prefix + "expert_used_count", 2)
      .tensor("token_embd.weight", kF32, {4, 32}, bytes_of(counting(128, 0)));
  return file;
}

class GgufExperts : public testing::Test {
 protected:
  std::shared_ptr<const GgufModel> open(const GgufBytes& file) {
    return GgufModel::open(directory_.write("model.gguf", file.bytes()));
  }
  GgufWeights weights_of(const GgufBytes& file) {
    const auto model = open(file);
    return {model, model->config().config};
  }
  std::string code_of_weights(const GgufBytes& file) {
    return code_of([&] { static_cast<void>(weights_of(file)); });
  }
  TempDirectory directory_;
};

TEST_F(GgufExperts, give_the_configuration_that_llama_cpp_knows_for_each_architecture) {
  const auto config_of = [&](const std::string& name, uint32_t size, uint32_t shared) {
    GgufBytes file = mixture_file(name);
    if (size != 0) file.integer(name + ".expert_feed_forward_length", size);
    if (shared != 0) file.integer(name + ".expert_shared_feed_forward_length", shared);
    return open(file)->config().config;
  };
  const ModelConfig mixtral = config_of("llama", 0, 0);
  EXPECT_EQ(mixtral.architecture, Architecture::mixtral);
  EXPECT_EQ(mixtral.moe->num_experts, 3);
  EXPECT_EQ(mixtral.moe->top_k, 2);
  EXPECT_EQ(mixtral.moe->intermediate_size, 64);
  EXPECT_TRUE(mixtral.moe->renormalises);
  EXPECT_FALSE(mixtral.sliding_window.has_value());

  const ModelConfig qwen2 = config_of("qwen2moe", 24, 40);
  EXPECT_EQ(qwen2.architecture, Architecture::qwen2_moe);
  EXPECT_EQ(qwen2.moe->intermediate_size, 24);
  EXPECT_EQ(qwen2.moe->shared_intermediate_size, 40);
  EXPECT_FALSE(qwen2.moe->renormalises);

  const ModelConfig qwen3 = config_of("qwen3moe", 24, 0);
  EXPECT_EQ(qwen3.architecture, Architecture::qwen3_moe);
  EXPECT_EQ(qwen3.moe->shared_intermediate_size, 0);
  EXPECT_TRUE(qwen3.moe->renormalises);
  EXPECT_EQ(config_of("qwen3moe", 0, 0).moe->intermediate_size, 32) << "64 for two experts";

  EXPECT_FALSE(config_of("olmoe", 0, 0).moe->renormalises);
  EXPECT_EQ(config_of("granitemoe", 0, 0).moe->intermediate_size, 64);
  EXPECT_EQ(code_of([&] { config_of("granitemoe", 0, 40); }), "E_CONFIG");
}

TEST_F(GgufExperts, are_matrices_of_their_own_that_share_a_tensor) {
  GgufBytes file = mixture_file("qwen3moe");
  file.integer("qwen3moe.expert_feed_forward_length", 32)
      .tensor("blk.0.ffn_up_exps.weight", kF32, {3, 32, 32}, bytes_of(counting(3072, 7)))
      .tensor("blk.0.ffn_down_exps.weight", kQ8_0, {3, 32, 32}, numbered_blocks(96))
      .tensor("blk.0.ffn_gate_inp.weight", kF32, {3, 32}, bytes_of(counting(96, 1)));
  const GgufWeights weights = weights_of(file);
  const std::string up = "model.layers.0.mlp.experts.2.up_proj.weight";
  ASSERT_NE(weights.find(up), nullptr);
  EXPECT_EQ(weights.find(up)->shape, (std::vector<int64_t>{32, 32}));
  EXPECT_EQ(weights.stored_bytes(up), 4096u);
  Floats values(1024);
  weights.read(up, DType::f32, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, counting(1024, 7 + 2048));
  EXPECT_TRUE(weights.has("model.layers.0.mlp.gate.weight"));

  const std::string down = "model.layers.0.mlp.experts.1.down_proj.weight";
  ASSERT_EQ(weights.panel_format(down), PanelFormat::q8_0);
  EXPECT_EQ(weights.panel_format(up), std::nullopt);
  std::vector<std::byte> panels(static_cast<size_t>(panel_bytes(PanelFormat::q8_0, 32, 32)));
  weights.read_panels(down, panels);
  std::vector<std::byte> second(panels.size() / 2);
  weights.read_panel_rows(down, {.first = 16, .count = 16}, second);
  EXPECT_EQ(std::memcmp(second.data(), panels.data() + second.size(), second.size()), 0);
  // The first code of each row: expert 1 begins with block 32 of the tensor.
  for (size_t row = 0; row < 32; ++row) {
    const size_t panel = row / 16 * second.size();
    EXPECT_EQ(static_cast<uint8_t>(panels[panel + row % 16 * 4]), 128 + 32 + row) << row;
  }
}

TEST_F(GgufExperts, have_the_names_of_their_family_and_are_found_in_older_files) {
  GgufBytes file = mixture_file("llama");
  for (const char* expert : {"0", "1", "2"}) {
    file.tensor(std::string("blk.0.ffn_gate.") + expert + ".weight",
                kF32,
                {64, 32},
                bytes_of(counting(2048, 0)));
  }
  file.tensor("blk.0.ffn_gate_inp.weight", kF32, {3, 32}, bytes_of(counting(96, 1)));
  const GgufWeights mixtral = weights_of(file);
  EXPECT_TRUE(mixtral.has("model.layers.0.block_sparse_moe.experts.1.w1.weight"));
  EXPECT_TRUE(mixtral.has("model.layers.0.block_sparse_moe.gate.weight"));

  GgufBytes shared = mixture_file("qwen2moe");
  shared.integer("qwen2moe.expert_shared_feed_forward_length", 8)
      .tensor("blk.0.ffn_up_shexp.weight", kF32, {8, 32}, bytes_of(counting(256, 0)))
      .tensor("blk.0.ffn_gate_inp_shexp.weight", kF32, {32}, bytes_of(counting(32, 5)));
  const GgufWeights qwen = weights_of(shared);
  EXPECT_TRUE(qwen.has("model.layers.0.mlp.shared_expert.up_proj.weight"));
  const TensorSpec* gate = qwen.find("model.layers.0.mlp.shared_expert_gate.weight");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->shape, (std::vector<int64_t>{1, 32}));
  Floats values(32);
  qwen.read("model.layers.0.mlp.shared_expert_gate.weight",
            DType::f32,
            std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, counting(32, 5));
}

TEST_F(GgufExperts, that_do_not_fit_are_refused_by_the_name_of_the_tensor) {
  const auto with = [](std::string_view name, const std::vector<uint64_t>& shape, size_t count) {
    GgufBytes file = mixture_file("qwen3moe");
    file.tensor(name, kF32, shape, bytes_of(counting(count, 0)));
    return file;
  };
  const char* up = "blk.0.ffn_up_exps.weight";
  EXPECT_EQ(code_of_weights(with(up, {2, 32, 32}, 2048)), "E_SHAPE") << "two of three experts";
  EXPECT_EQ(code_of_weights(with(up, {96, 32}, 3072)), "E_SHAPE") << "no list of matrices";
  GgufBytes twice = with(up, {3, 32, 32}, 3072);
  twice.tensor("blk.0.ffn_up.1.weight", kF32, {32, 32}, bytes_of(counting(1024, 0)));
  EXPECT_EQ(code_of_weights(twice), "E_DUPLICATE");
  // The model has no experts, so a name like that of an expert has no meaning.
  EXPECT_EQ(find_expert_matrices("blk.x.ffn_up_exps.weight", {}), std::nullopt);
  EXPECT_EQ(find_expert_matrices("blk.0.ffn_up.-1.weight", {}), std::nullopt);
  EXPECT_EQ(find_expert_matrices("blk.0.ffn_up.99999999999999999999.weight", {}), std::nullopt);
  EXPECT_EQ(find_expert_matrices("blk.0.attn_q_exps.weight", {}), std::nullopt);
  EXPECT_EQ(find_expert_matrices("blk.0.ffn_up.weight", {}), std::nullopt);
}

}  // namespace
}  // namespace reprise::weights::gguf
