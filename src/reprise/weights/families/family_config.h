#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/config_reader.h"

/// Each family of models has a function that turns the members of a config.json into a ModelConfig,
/// with the defaults of the family's class in Transformers. This header has the parts that these
/// functions share.
namespace reprise::weights {

/// Each bound is several times the value of the largest published models (Llama 3.1 405B: hidden 16
/// 384, intermediate 53 248, 126 layers, 128 heads; vocabularies up to 256 k; contexts up to 10 M),
/// and low enough that the product of any two is below 2^48.
inline constexpr int64_t kMaxHiddenSize = int64_t{1} << 17;
inline constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;

/// A config.json that is being read. Borrowed for the call.
struct FamilyConfig {
  const ConfigReader& reader;
  ModelConfig& config;
  std::vector<std::string>& warnings;
};

/// The names of the members for sizes, which differ in older families.
struct SizeKeys {
  std::string_view hidden_size = "hidden_size";
  std::string_view intermediate_size = "intermediate_size";
  std::string_view num_hidden_layers = "num_hidden_layers";
  std::string_view num_attention_heads = "num_attention_heads";
  std::string_view max_position_embeddings = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  double default_norm_eps = 1e-6;
  /// 0: the number of positions is required.
  int64_t default_max_positions = 0;
  /// The intermediate size may be left out: then it is four times the hidden size.
  bool has_default_intermediate_size = false;
  bool has_attention = true;
  /// 0: the number of layers is the member num_hidden_layers.
  int64_t num_layers = 0;
};

void read_sizes(const FamilyConfig& in, const SizeKeys& keys = {});
/// num_key_value_heads and head_dim. \pre read_sizes
void read_heads(const FamilyConfig& in, std::optional<int64_t> default_head_dim = {});
/// Sets heads that all have keys and values of their own; the size of a head follows from the
/// hidden size.
void use_plain_heads(const FamilyConfig& in, std::string_view num_heads_key);
/// Reads the function of the MLP. Refuses names for which there is no kernel.
void read_activation(const FamilyConfig& in,
                     std::string_view key = "hidden_act",
                     std::string_view name_by_default = "silu");
/// Refuses `hidden_act` other than silu. `where`: the part that supports only silu, for the
/// message.
void require_silu(const FamilyConfig& in, std::string_view where);
/// LayerNorm with biases.
void use_layer_norm(const FamilyConfig& in);

/// All layers get this window, or no window if it is not given.
void use_window(const FamilyConfig& in, std::optional<int64_t> window);
/// The layers from `first_layer` on are sliding layers.
void use_window_from(const FamilyConfig& in, std::optional<int64_t> window, int64_t first_layer);
/// Every `period`-th layer sees all tokens; the other layers slide.
void use_window_except_every(const FamilyConfig& in, std::optional<int64_t> window, int64_t period);
/// `layer_types`, if given, replaces the layers chosen so far. `num_more`: the number of entries
/// that may follow those of the layers. \pre one of the above
void read_layer_types(const FamilyConfig& in, int64_t num_more = 0);

/// The rotation of all layers; `keys` needs no sizes. \pre read_heads
void read_rope(const FamilyConfig& in, RopeKeys keys = {});
/// The same if sliding layers have frequencies of their own: reads the members that `sliding`
/// names, and the object for that type of layers in `rope_parameters`. `rope_scaling` does not
/// change them.
void read_rope_by_layer_type(const FamilyConfig& in, RopeKeys full, RopeKeys sliding);
/// Reads the rotation of Ministral 3 and Mistral Small 4, in which queries grow with the position.
/// The scaling is `by_default` if the config has none. `keys` may leave out positions.
void read_rope_with_temperature(const FamilyConfig& in, const Json& by_default, RopeKeys keys);
/// Reads which layers rotate. `no_rope_layers` has a 1 for each layer that rotates, in spite of its
/// name; without it, every no_rope_layer_interval-th layer does not rotate. \pre read_sizes
void read_rope_layers(const FamilyConfig& in);
/// The number and the sizes of experts, which a config may list for each layer if all are equal.
/// \pre read_sizes
[[nodiscard]] MixtureOfExperts read_experts(const FamilyConfig& in,
                                            std::string_view count_key,
                                            std::string_view size_key,
                                            int64_t default_top_k,
                                            std::string_view top_k_key = "num_experts_per_tok");
/// The values of members that a config leaves out; each family has its own.
struct DefaultExperts {
  int64_t num_dense = 0;  // first layers without experts
  bool renormalises = true;
  int64_t top_k = 8;
  int64_t num_shared = 0;
  double routed_scale = 1;
};
/// The names of the members, which differ in some families.
struct ExpertKeys {
  std::string_view count = "n_routed_experts";
  std::string_view top_k = "num_experts_per_tok";
  std::string_view renormalises = "norm_topk_prob";
  std::string_view groups = "n_group";
  std::string_view num_shared = "n_shared_experts";
};
/// Reads the experts of DeepSeek-V2 and V3, which other families have too: groups, shared experts,
/// and first layers without experts. \pre read_sizes
void read_experts_of_deepseek(const FamilyConfig& in,
                              RouterScores scores,
                              const DefaultExperts& by_default = {},
                              const ExpertKeys& keys = {});
/// The sizes of multi-head latent attention. `default_q_rank` 0: queries have no latent.
/// \pre read_sizes
void read_latent_attention(const FamilyConfig& in, int64_t default_q_rank);
/// `mlp_layer_types`, if given, replaces the choice of layers with experts. \pre
/// read_experts_of_deepseek
void read_mlp_layer_types(const FamilyConfig& in, int64_t num_more = 0);
/// A list with an entry for each layer. `num_more`: the number of entries that may follow them.
[[nodiscard]] const Json* find_layer_list(const FamilyConfig& in,
                                          std::string_view key,
                                          int64_t num_more = 0);
/// Reads the experts of Qwen2-MoE and its successors: a shared expert with a gate, and which layers
/// have experts. \pre read_sizes
void read_experts_of_qwen(const FamilyConfig& in);
/// Reads the experts of Granite: every layer has experts. \pre read_sizes
void read_experts_of_granite(const FamilyConfig& in);
void read_tied_embeddings(const FamilyConfig& in, bool by_default);

/// Refuses a boolean member that has another value than the only one that the code supports.
void require_boolean(const FamilyConfig& in, std::string_view key, bool only_value);
/// A multiplier that must be finite and positive.
[[nodiscard]] double read_multiplier(const FamilyConfig& in,
                                     std::string_view key,
                                     double by_default);
/// A cap c of c * tanh(x / c); 0 if it is not given.
[[nodiscard]] double read_soft_cap(const FamilyConfig& in, std::string_view key, double by_default);

// One reader per architecture; see family_list.inl.
#define X(architecture, name, model_type, reader) void reader(const FamilyConfig& in);
#include "reprise/weights/families/family_list.inl"
#undef X

}  // namespace reprise::weights
