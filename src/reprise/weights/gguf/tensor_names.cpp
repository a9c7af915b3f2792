#include "reprise/weights/gguf/tensor_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

namespace reprise::weights::gguf {
namespace {

using Role = std::string_view DecoderTensors::*;

/// A module's name in the format, and its name in a family.
struct ModuleRow {
  std::string_view module;
  Role role;
  Role otherwise = nullptr;  // for families without the first role
};

// Source: gguf-py/gguf/tensor_mapping.py of https://github.com/ggml-org/llama.cpp
constexpr auto kModelModules = std::to_array<ModuleRow>({
    {"token_embd", &DecoderTensors::embedding},
    {"position_embd", &DecoderTensors::position_embedding},
    {"token_types", &DecoderTensors::token_type_embedding},
    // The last norm of LFM2 has this name.
    {"token_embd_norm", &DecoderTensors::embedding_norm, &DecoderTensors::final_norm},
    {"output_norm", &DecoderTensors::final_norm},
    {"output", &DecoderTensors::lm_head},
});

constexpr auto kLayerModules = std::to_array<ModuleRow>({
    {"attn_norm", &DecoderTensors::attention_norm},
    {"attn_norm_2", &DecoderTensors::attention_norm},  // of Falcon
    {"attn_q", &DecoderTensors::q},
    {"attn_k", &DecoderTensors::k},
    {"attn_v", &DecoderTensors::v},
    {"attn_qkv", &DecoderTensors::qkv},
    {"attn_output", &DecoderTensors::o},
    {"attn_output_norm", &DecoderTensors::attention_result_norm},
    {"layer_output_norm", &DecoderTensors::mlp_result_norm},
    {"attn_q_norm", &DecoderTensors::q_norm},
    {"attn_k_norm", &DecoderTensors::k_norm},
    {"ffn_norm", &DecoderTensors::mlp_norm},
    {"post_attention_norm", &DecoderTensors::attention_result_norm, &DecoderTensors::mlp_norm},
    {"post_ffw_norm", &DecoderTensors::mlp_result_norm},
    {"ffn_gate", &DecoderTensors::gate},
    {"ffn_up", &DecoderTensors::gate_up, &DecoderTensors::up},
    {"ffn_down", &DecoderTensors::down},
    {"ffn_gate_inp", &DecoderTensors::router},
    {"ffn_gate_inp_shexp", &DecoderTensors::shared_expert_gate},
    // These belong to latent attention.
    {"attn_q_a", &DecoderTensors::q_a},
    {"attn_q_a_norm", &DecoderTensors::q_a_norm},
    {"attn_q_b", &DecoderTensors::q_b},
    {"attn_kv_a_mqa", &DecoderTensors::kv_a},
    {"attn_kv_a_norm", &DecoderTensors::kv_a_norm},
    {"attn_kv_b", &DecoderTensors::kv_b},
    // These belong to the index of positions of sparse attention.
    {"indexer.attn_q_b", &DecoderTensors::index_q_b},
    {"indexer.attn_k", &DecoderTensors::index_k},
    {"indexer.k_norm", &DecoderTensors::index_k_norm},
    {"indexer.proj", &DecoderTensors::index_weights},
    {"attn_gate", &DecoderTensors::head_gates},
});

constexpr auto kMixerModules = std::to_array<ModuleRow>({
    {"ssm_in", &DecoderTensors::mixer_in},
    {"ssm_conv1d", &DecoderTensors::mixer_conv},
    {"ssm_out", &DecoderTensors::mixer_out},
    {"attn_gate", &DecoderTensors::mixer_z},
    {"ssm_ba", &DecoderTensors::mixer_gates},
    {"ssm_beta", &DecoderTensors::mixer_beta},
    {"ssm_alpha", &DecoderTensors::mixer_dt},
    {"shortconv.in_proj", &DecoderTensors::mixer_in},
    {"shortconv.conv", &DecoderTensors::mixer_conv},
    {"shortconv.out_proj", &DecoderTensors::mixer_out},
});

/// Tensors that are looked up by their whole name, and their name in all families.
struct TensorRow {
  std::string_view tensor;
  std::string_view name;
};
constexpr auto kMixerTensors = std::to_array<TensorRow>({
    {"ssm_a", "A_log"},
    {"ssm_d", "D"},
    {"ssm_dt.bias", "dt_bias"},
    {"ssm_norm.weight", "norm.weight"},
    // Only Mamba-1 has these.
    {"ssm_x.weight", "x_proj.weight"},
    {"ssm_dt.weight", "dt_proj.weight"},
});

// Modules of Kimi's delta attention. Its q, k and v have the same names as in other layers.
constexpr auto kDeltaModules = std::to_array<TensorRow>({
    {"ssm_conv1d_q", "q_conv1d"},
    {"ssm_conv1d_k", "k_conv1d"},
    {"ssm_conv1d_v", "v_conv1d"},
    {"ssm_f_a", "f_a_proj"},
    {"ssm_f_b", "f_b_proj"},
    {"ssm_g_a", "g_a_proj"},
    {"ssm_g_b", "g_b_proj"},
    {"ssm_beta", "b_proj"},
    {"ssm_norm", "o_norm"},
});

// Tensors that are not part of a module in checkpoints.
struct SingleRow {
  std::string_view tensor;
  Role role;
};
constexpr auto kSingleTensors = std::to_array<SingleRow>({
    {"attn_sinks.weight", &DecoderTensors::sinks},
    {"exp_probs_b.bias", &DecoderTensors::router_bias},
});

constexpr auto kExpertModules = std::to_array<ModuleRow>({
    {"ffn_gate", &DecoderTensors::expert_gate},
    {"ffn_up", &DecoderTensors::expert_up},
    {"ffn_down", &DecoderTensors::expert_down},
});

std::string_view find_module(std::span<const ModuleRow> rows,
                             std::string_view module,
                             const DecoderTensors& names) {
  for (const ModuleRow& row : rows) {
    if (row.module != module) continue;
    const std::string_view name = names.*row.role;
    return name.empty() && row.otherwise != nullptr ? names.*row.otherwise : name;
  }
  return {};
}

// The module of the expert that every token uses; empty if it is another module.
std::string find_shared_module(std::string_view module, const DecoderTensors& names) {
  const DecoderTensors::ExpertModules modules = names.shared_modules();
  for (const auto& [stored, name] : {std::pair{"ffn_gate_shexp", modules.gate},
                                     std::pair{"ffn_up_shexp", modules.up},
                                     std::pair{"ffn_down_shexp", modules.down}}) {
    if (stored == module) return std::string(names.shared_expert) + std::string(name);
  }
  return {};
}

constexpr std::string_view kLayerPrefix = "blk.";

// The number that a text spells, if it spells one that is not negative.
std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

/// "blk.3.attn_q.weight".
struct NameInLayer {
  int64_t layer = 0;
  std::string_view module;  // "attn_q"
  std::string_view suffix;  // ".weight"
};

std::optional<NameInLayer> split(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> layer = number_of(name.substr(0, dot));
  if (!layer) return std::nullopt;
  const std::string_view rest = name.substr(dot + 1);
  const size_t leaf = rest.rfind('.');
  if (leaf == std::string_view::npos) return NameInLayer{*layer, rest, {}};
  return NameInLayer{*layer, rest.substr(0, leaf), rest.substr(leaf)};
}

// The name within the mixer, such as "conv1d.weight"; empty: the tensor is not part of a mixer.
std::string name_in_mixer(const NameInLayer& parts,
                          const ModelConfig& config,
                          const DecoderTensors& names) {
  const std::string whole = std::string(parts.module) + std::string(parts.suffix);
  // In the first Mamba the bias belongs to a projection; in all others it is a separate tensor.
  if (whole == "ssm_dt.bias" && config.recurrent->recurrence == Recurrence::mamba1) {
    return "dt_proj.bias";
  }
  if (config.recurrent->has_key_steps) {
    for (const TensorRow& row : kDeltaModules) {
      if (row.tensor == parts.module) return std::string(row.name) + std::string(parts.suffix);
    }
  }
  for (const TensorRow& row : kMixerTensors) {
    if (row.tensor == whole) return std::string(row.name);
  }
  std::string_view module = find_module(kMixerModules, parts.module, names);
  // Qwen3.5, in which q, k and v are not in the same tensor as the gate.
  if (parts.module == "attn_qkv" && !names.mixer_z.empty()) module = names.mixer_in;
  return module.empty() ? std::string() : std::string(module) + std::string(parts.suffix);
}

// The stacked experts of GPT-OSS, and pairs of projections that are one tensor in checkpoints.
std::optional<CheckpointName> find_joined(const NameInLayer& parts,
                                          const ModelConfig& config,
                                          const DecoderTensors& names) {
  const int64_t heads = config.num_attention_heads;
  const int64_t experts = config.moe && config.moe->is_stacked ? config.moe->num_experts : 0;
  const bool has_halves = !names.shared_gate_up.empty();  // of gate and up, in Granite's models
  const std::string shared = std::string(names.shared_expert) + std::string(names.shared_gate_up);
  const std::string kv_b(names.kv_b);
  // In Qwen3-Next, checkpoints have both in one tensor, one group of heads after the other.
  const bool has_gated_groups = !names.mixer_gates.empty() &&
                                parts.layer < config.num_hidden_layers &&
                                config.is_recurrent_layer(parts.layer);
  const int64_t groups = config.recurrent ? config.recurrent->num_groups : 0;
  std::vector<int64_t> rows_of_qkv;
  if (has_gated_groups) {
    const int64_t keys = config.recurrent->state_size;
    rows_of_qkv = {keys, keys, config.recurrent->value_size() / groups};
  }
  const std::string mixer_in = std::string(names.mixer) + std::string(names.mixer_in);
  const std::string gate_up(names.gate_up);
  using enum RowsOfGroup;
  struct Line {
    bool applies;
    std::string_view module;
    const std::string& name;
    RowsOfGroup rows;
    int64_t num_groups;
    bool is_transposed = false;
    std::vector<int64_t> pieces = {};
  };
  const std::string expert_gate_up = std::string(names.experts) + std::string(names.expert_gate_up);
  const std::string expert_down = std::string(names.experts) + std::string(names.expert_down);
  const std::array lines = {
      Line{has_halves, "ffn_gate", gate_up, first, 1},
      Line{has_halves, "ffn_up", gate_up, last, 1},
      Line{has_halves, "ffn_gate_shexp", shared, first, 1},
      Line{has_halves, "ffn_up_shexp", shared, last, 1},
      Line{has_gated_groups, "attn_qkv", mixer_in, first, groups, false, rows_of_qkv},
      Line{has_gated_groups, "attn_gate", mixer_in, last, groups},
      Line{config.mla.has_value(), "attn_k_b", kv_b, first, heads, true},
      Line{config.mla.has_value(), "attn_v_b", kv_b, last, heads},
      Line{experts != 0, "ffn_gate_exps", expert_gate_up, first, experts},
      Line{experts != 0, "ffn_up_exps", expert_gate_up, last, experts},
      Line{experts != 0, "ffn_down_exps", expert_down, all, experts},
  };
  for (const Line& line : lines) {
    if (!line.applies || line.module != parts.module || line.name.empty()) continue;
    std::string suffix(parts.suffix);
    // In checkpoints these are tensors, not modules.
    if (experts != 0 && line.num_groups == experts) suffix = suffix == ".bias" ? "_bias" : "";
    return CheckpointName{.name = names.in_layer(parts.layer, line.name) + suffix,
                          .rows = line.rows,
                          .num_groups = line.num_groups,
                          .is_transposed = line.is_transposed,
                          .pieces = line.pieces};
  }
  return std::nullopt;
}

bool is_parameter(std::string_view suffix) { return suffix == ".weight" || suffix == ".bias"; }

}  // namespace

std::optional<int64_t> layer_of(std::string_view name) {
  const std::optional<NameInLayer> parts = split(name);
  return parts ? std::optional(parts->layer) : std::nullopt;
}

std::string_view name_in_layer(std::string_view name) {
  if (!split(name)) return name;
  return name.substr(name.find('.', kLayerPrefix.size()) + 1);
}

std::optional<ExpertMatricesName> find_expert_matrices(std::string_view name,
                                                       const DecoderTensors& names) {
  constexpr std::string_view kStacked = "_exps";
  const std::optional<NameInLayer> parts = split(name);
  if (!parts || parts->suffix != ".weight") return std::nullopt;
  std::string_view module = parts->module;
  std::optional<int64_t> expert;
  if (module.ends_with(kStacked)) {
    module.remove_suffix(kStacked.size());
  } else {
    const size_t last = module.rfind('.');
    if (last == std::string_view::npos) return std::nullopt;
    expert = number_of(module.substr(last + 1));
    if (!expert) return std::nullopt;
    module = module.substr(0, last);
  }
  if (module == "ffn_gate_up" && !expert) {
    return ExpertMatricesName{
        .layer = parts->layer, .module = names.expert_gate, .second_module = names.expert_up};
  }
  const std::string_view found = find_module(kExpertModules, module, names);
  if (found.empty()) return std::nullopt;
  return ExpertMatricesName{.layer = parts->layer, .module = found, .expert = expert};
}

std::optional<CheckpointName> checkpoint_name(std::string_view name,
                                              const ModelConfig& config,
                                              const DecoderTensors& names) {
  std::optional<NameInLayer> parts = split(name);
  if (!parts) {
    const size_t leaf = name.rfind('.');
    if (leaf == std::string_view::npos || !is_parameter(name.substr(leaf))) return std::nullopt;
    const std::string_view module = find_module(kModelModules, name.substr(0, leaf), names);
    if (module.empty()) return std::nullopt;
    return CheckpointName{std::string(module) + std::string(name.substr(leaf))};
  }
  if (config.recurrent) {
    const std::string mixer = name_in_mixer(*parts, config, names);
    if (!mixer.empty()) return CheckpointName{names.in_mixer(parts->layer, mixer)};
  }
  for (const SingleRow& row : kSingleTensors) {
    if (row.tensor != name_in_layer(name)) continue;
    return CheckpointName{names.in_layer(parts->layer, names.*row.role)};
  }
  // Converters write a norm of Falcon-H1 without ".weight".
  if (parts->suffix.empty()) parts->suffix = ".weight";
  if (!is_parameter(parts->suffix)) return std::nullopt;
  if (auto joined = find_joined(*parts, config, names)) return joined;
  std::string module(find_module(kLayerModules, parts->module, names));
  // In Falcon, the first norm belongs to the MLP if attention has a second one.
  if (config.architecture == Architecture::falcon && config.has_parallel_norms &&
      parts->module == "attn_norm") {
    module = names.mlp_norm;
  }
  if (module.empty()) module = find_shared_module(parts->module, names);
  if (module.empty()) return std::nullopt;
  return CheckpointName{names.in_layer(parts->layer, module) + std::string(parts->suffix)};
}

ValueChange value_change(std::string_view name, const ModelConfig& config) {
  const bool is_norm = name.ends_with("norm.weight") && !name.ends_with(".ssm_norm.weight");
  if (is_norm && config.norm == NormType::gemma_rms_norm) return ValueChange::minus_one;
  if (name.ends_with(".ssm_a")) return ValueChange::log_of_negative;
  return ValueChange::none;
}

bool is_derived(std::string_view name) {
  constexpr std::array kDerived = {
      // Divisors of frequencies, which ModelConfig contains.
      std::string_view("rope_freqs.weight"),
      std::string_view("rope_factors_long.weight"),
      std::string_view("rope_factors_short.weight"),
  };
  return std::ranges::find(kDerived, name) != kDerived.end() ||
         name.ends_with(".attn_rot_embd.weight");  // inverse frequencies, in old files
}

int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config) {
  constexpr std::array kLikeLlama = {Architecture::llama,
                                     Architecture::mistral,
                                     Architecture::ministral3,
                                     Architecture::mixtral,
                                     Architecture::granite,
                                     Architecture::granite_moe,
                                     Architecture::granite_moe_hybrid,
                                     Architecture::smollm3};
  if (std::ranges::find(kLikeLlama, config.architecture) == kLikeLlama.end()) return 0;
  const std::optional<NameInLayer> parts = split(name);
  if (!parts || !is_parameter(parts->suffix)) return 0;
  if (parts->module == "attn_q") return config.num_attention_heads;
  if (parts->module == "attn_k") return config.num_key_value_heads;
  return 0;
}

int64_t stored_row(int64_t row, int64_t num_rows, int64_t num_heads) {
  const int64_t half = num_rows / num_heads / 2;
  const int64_t in_head = row % (2 * half);
  return row - in_head + in_head % half * 2 + in_head / half;
}

void use_order_of_files(ModelConfig& config) {
  const bool is_tiled = config.architecture == Architecture::qwen3_5 ||
                        config.architecture == Architecture::qwen3_5_moe;
  if (is_tiled) config.recurrent->has_tiled_heads = true;
  if (config.qkv_layout != QkvLayout::separate) config.qkv_layout = QkvLayout::stacked;
  config.has_transposed_matrices = false;
}

}  // namespace reprise::weights::gguf
