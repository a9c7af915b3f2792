// Nemotron-H: a layer is one of a recurrence of Mamba-2, attention, an MLP or experts.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr size_t kMaxBlocks = 1024;         // published models have up to 118
constexpr int64_t kMaxMixerHeads = 4096;    // published models have up to 256
constexpr int64_t kMaxMixerHeadDim = 1024;  // published models have up to 80
constexpr int64_t kMaxMixerState = 1024;    // published models have up to 256
constexpr int64_t kMaxMixerKernel = 16;     // published models have 4
constexpr int64_t kMaxSharedSize = int64_t{1} << 20;

enum class Block : uint8_t { recurrence, attention, mlp, experts };

// "M*-E", of published configs.
std::vector<Block> blocks_of_pattern(const FamilyConfig& in, std::string_view key) {
  std::vector<Block> blocks;
  for (const char letter : in.reader.string(key).value_or("")) {
    switch (letter) {
      case 'M':
        blocks.push_back(Block::recurrence);
        break;
      case '*':
        blocks.push_back(Block::attention);
        break;
      case '-':
        blocks.push_back(Block::mlp);
        break;
      case 'E':
        blocks.push_back(Block::experts);
        break;
      default:
        in.reader.fail(key,
                       fmt::format("'{}' is not supported; supported: M, *, -, E",
                                   visible(std::string(1, letter))));
    }
  }
  return blocks;
}

// Reads the list that Transformers 5 writes; "mamba" and "attention" are older names in it.
std::vector<Block> blocks_of_list(const FamilyConfig& in, std::string_view key, const Json& list) {
  if (!list.is_array()) in.reader.fail(key, "must be a list of the types of layers");
  std::vector<Block> blocks;
  for (const Json& type : list) {
    if (type == "linear_attention" || type == "mamba") {
      blocks.push_back(Block::recurrence);
    } else if (type == "full_attention" || type == "attention") {
      blocks.push_back(Block::attention);
    } else if (type == "mlp") {
      blocks.push_back(Block::mlp);
    } else if (type == "moe") {
      blocks.push_back(Block::experts);
    } else {
      in.reader.fail(key,
                     fmt::format("'{}' is not supported; supported: linear_attention, "
                                 "full_attention, mlp, moe",
                                 visible(type.dump())));
    }
  }
  return blocks;
}

std::vector<Block> read_blocks(const FamilyConfig& in) {
  constexpr std::string_view kPattern = "hybrid_override_pattern";
  const Json* list = in.reader.find("layers_block_type");
  const std::string_view key = list != nullptr ? "layers_block_type" : kPattern;
  std::vector<Block> blocks =
      list != nullptr ? blocks_of_list(in, key, *list) : blocks_of_pattern(in, key);
  if (blocks.empty() || blocks.size() > kMaxBlocks) {
    in.reader.fail(key, fmt::format("must name 1 to {} layers, got {}", kMaxBlocks, blocks.size()));
  }
  // Without such a layer, the model would remember nothing of earlier tokens.
  if (std::ranges::none_of(blocks, [](Block block) {
        return block == Block::recurrence || block == Block::attention;
      })) {
    in.reader.fail(key, "must have a layer of attention or with a recurrence");
  }
  const auto given = in.reader.integer("num_hidden_layers", 1, kMaxPositions);
  if (given && std::cmp_not_equal(*given, blocks.size())) {
    in.warnings.push_back(fmt::format(
        "num_hidden_layers {} is not the number of layers in {}, {}; the latter is used",
        *given,
        key,
        blocks.size()));
  }
  return blocks;
}

void read_recurrence(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  RecurrentConfig layers{.recurrence = Recurrence::mamba2};
  layers.num_heads = reader.integer("mamba_num_heads", 1, kMaxMixerHeads).value_or(128);
  layers.head_dim = reader.integer("mamba_head_dim", 1, kMaxMixerHeadDim).value_or(64);
  layers.state_size = reader.integer("ssm_state_size", 1, kMaxMixerState).value_or(128);
  layers.num_groups = reader.integer("n_groups", 1, kMaxMixerHeads).value_or(8);
  layers.conv_kernel = reader.integer("conv_kernel", 2, kMaxMixerKernel).value_or(4);
  layers.conv_bias = reader.boolean("use_conv_bias").value_or(true);
  layers.proj_bias = reader.boolean("use_bias").value_or(false);
  if (reader.boolean("mamba_proj_bias").value_or(layers.proj_bias) != layers.proj_bias) {
    reader.fail("mamba_proj_bias", "must be equal to use_bias");
  }
  if (reader.string("mamba_hidden_act").value_or("silu") != "silu") {
    reader.fail("mamba_hidden_act", "only silu is supported by recurrent layers");
  }
  if (layers.num_heads % layers.num_groups != 0) {
    reader.fail(
        "n_groups",
        fmt::format("{} does not divide mamba_num_heads {}", layers.num_groups, layers.num_heads));
  }
  in.config.recurrent = layers;
}

void read_routed_experts(const FamilyConfig& in, const std::vector<Block>& blocks) {
  const ConfigReader& reader = in.reader;
  ModelConfig& config = in.config;
  read_experts_of_deepseek(in, RouterScores::sigmoid_with_bias);
  MixtureOfExperts& moe = *config.moe;
  moe.is_gated = false;
  // One shared expert of its own size, whatever number n_shared_experts is.
  moe.shared_intermediate_size =
      reader.required_integer("moe_shared_expert_intermediate_size", 1, kMaxSharedSize);
  moe.latent_size = reader.integer("moe_latent_size", 1, kMaxSharedSize).value_or(0);
  if (config.mlp_bias) reader.fail("mlp_bias", "only false is supported with experts");
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    config.moe_layers[layer] = blocks[layer] == Block::experts;
  }
}

}  // namespace

void read_nemotron_h(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  ModelConfig& config = in.config;
  const std::vector<Block> blocks = read_blocks(in);
  config.has_gated_mlp = false;
  config.has_single_blocks = true;
  read_activation(in, "mlp_hidden_act", "relu2");
  read_sizes(in,
             {.norm_eps = "layer_norm_epsilon",
              .default_norm_eps = 1e-5,
              .has_default_intermediate_size = true,
              .num_layers = static_cast<int64_t>(blocks.size())});
  read_heads(in, reader.integer("attention_head_dim", 2, 1024).value_or(128));
  // The class has no biases in attention.
  require_boolean(in, "attention_bias", false);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.rope = {.type = RopeType::none};
  for (size_t layer = 0; layer < blocks.size(); ++layer) {
    config.layer_types[layer] = blocks[layer] == Block::recurrence  ? LayerType::linear_attention
                                : blocks[layer] == Block::attention ? LayerType::full_attention
                                                                    : LayerType::none;
  }
  const auto has = [&](Block block) { return std::ranges::find(blocks, block) != blocks.end(); };
  if (has(Block::recurrence)) read_recurrence(in);
  if (has(Block::experts)) read_routed_experts(in, blocks);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
