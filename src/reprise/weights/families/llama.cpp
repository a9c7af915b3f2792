// Llama and the classes that differ from it by flags. Source of the defaults here and in the other
// files of this folder: transformers, configuration_<family>.py and modeling_<family>.py.
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "reprise/base/json.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

/// The default of a class of dense models. The class with experts, which shares its reader, has
/// none, and divides as Llama does.
std::optional<int64_t> head_dim_of_dense(const FamilyConfig& in, Architecture dense) {
  if (in.config.architecture != dense) return std::nullopt;
  return 128;
}

// For a class of Qwen models: the first layers see all tokens.
void read_optional_window(const FamilyConfig& in, int64_t first_layer_by_default) {
  if (!in.reader.boolean("use_sliding_window").value_or(false)) return;
  use_window_from(
      in,
      in.reader.integer("sliding_window", 1, kMaxPositions),
      in.reader.integer("max_window_layers", 0, kMaxPositions).value_or(first_layer_by_default));
}

}  // namespace

void read_llama(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  const bool attention_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qkv_bias = in.config.o_bias = attention_bias;
  in.config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  read_layer_types(in);
  read_rope(in);
  read_tied_embeddings(in, false);
}

void read_mistral(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  // A window of 4096 unless the config says null.
  const auto window = in.reader.integer("sliding_window", 1, kMaxPositions);
  use_window(in, in.reader.has("sliding_window") ? window : std::optional<int64_t>(4096));
  read_layer_types(in);
  read_rope(in);
  read_tied_embeddings(in, false);
}

// Mistral in which queries grow with the distance from the positions of the unscaled model.
void read_ministral3(const FamilyConfig& in) {
  static const Json kScaling = {{"rope_type", "yarn"},
                                {"rope_theta", 1e6},
                                {"factor", 16.0},
                                {"original_max_position_embeddings", 16384},
                                {"mscale", 1.0},
                                {"mscale_all_dim", 1.0},
                                {"llama_4_scaling_beta", 0.1}};
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in, 128);
  use_window(in, in.reader.integer("sliding_window", 1, kMaxPositions));
  read_tied_embeddings(in, false);
  read_rope_with_temperature(in, kScaling, {.head_dim = in.config.head_dim, .default_theta = 1e6});
}

void read_qwen2(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  in.config.qkv_bias = true;
  read_optional_window(in, 28);
  read_layer_types(in);
  read_rope(in);
  read_tied_embeddings(in, false);
}

void read_qwen3(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in, head_dim_of_dense(in, Architecture::qwen3));
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qk_norm = QkNorm::per_head;
  read_optional_window(in, 28);
  read_layer_types(in);
  read_rope(in);
  read_tied_embeddings(in, false);
}

// Llama with biases that can be switched on separately.
void read_seed_oss(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in, 128);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(true);
  in.config.o_bias = in.reader.boolean("attention_out_bias").value_or(false);
  in.config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  read_rope(in);
  read_tied_embeddings(in, false);
}

// Llama that rotates neighbouring pairs.
void read_ernie4_5(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in, head_dim_of_dense(in, Architecture::ernie4_5));
  in.config.qkv_bias = in.config.o_bias = in.config.mlp_bias =
      in.reader.boolean("use_bias").value_or(false);
  read_rope(in, {.default_theta = 5e5, .is_interleaved = true});
  read_tied_embeddings(in, true);
}

// Llama that norms each head after its rotation. A factor `alpha` stretches the base of the
// frequencies: configs call that "dynamic", but it does not depend on the length of a text.
void read_hunyuan_dense(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  require_boolean(in, "use_qk_norm", true);
  in.config.qk_norm = QkNorm::per_head;
  in.config.norms_rotated_heads = true;
  read_tied_embeddings(in, false);
  const auto parameters = in.reader.object("rope_parameters");
  const auto scaling = in.reader.object(
      in.reader.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters");
  const double alpha = scaling ? scaling->number("alpha", 1, 1e6).value_or(0) : 0;
  if (alpha == 0) return read_rope(in);
  const std::string type =
      scaling->string("rope_type").value_or(scaling->string("type").value_or("dynamic"));
  if (type != "dynamic") scaling->fail("alpha", "is supported with the rope type dynamic alone");
  const auto head_dim = static_cast<double>(in.config.head_dim);
  if (head_dim <= 2) in.reader.fail("head_dim", "must be more than 2 beside a factor alpha");
  double theta = in.reader.number("rope_theta", 1, 1e12).value_or(1e4);
  if (parameters) theta = parameters->number("rope_theta", 1, 1e12).value_or(theta);
  in.config.rope.theta = theta * std::pow(alpha, head_dim / (head_dim - 2));
}

}  // namespace reprise::weights
