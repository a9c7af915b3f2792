#include "reprise/weights/gguf/tensor_names.h"

#include <array>
#include <utility>

namespace reprise::weights::gguf {
namespace {

// Source: gguf-py/gguf/tensor_mapping.py of https://github.com/ggml-org/llama.cpp
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kModelNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},  // of Phi-3
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},  // where there is no ffn_norm
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

template <size_t kCount>
std::string_view find_module(
    const std::array<std::pair<std::string_view, std::string_view>, kCount>& names,
    std::string_view module) {
  for (const auto& [from, to] : names) {
    if (from == module) return to;
  }
  return {};
}

}  // namespace

std::string hugging_face_name(std::string_view name, Architecture architecture) {
  constexpr std::string_view kLayerPrefix = "blk.";
  const size_t leaf = name.rfind('.');
  if (leaf == std::string_view::npos) return std::string(name);
  const std::string_view suffix = name.substr(leaf);  // ".weight" or ".bias"
  if (!name.starts_with(kLayerPrefix)) {
    const std::string_view module = find_module(kModelNames, name.substr(0, leaf));
    return module.empty() ? std::string(name) : std::string(module) + std::string(suffix);
  }
  const std::string_view rest = name.substr(kLayerPrefix.size(), leaf - kLayerPrefix.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::string(name);
  const bool has_gate_in_up =
      architecture == Architecture::phi3 && rest.substr(dot + 1) == "ffn_up";
  const std::string_view module =
      has_gate_in_up ? "mlp.gate_up_proj" : find_module(kLayerNames, rest.substr(dot + 1));
  if (module.empty()) return std::string(name);
  return "model.layers." + std::string(rest.substr(0, dot)) + "." + std::string(module) +
         std::string(suffix);
}

int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config) {
  const bool is_of_llama = config.architecture == Architecture::llama ||
                           config.architecture == Architecture::granite ||
                           config.architecture == Architecture::smollm3;
  if (!is_of_llama) return 0;
  if (!name.starts_with("blk.")) return 0;
  const auto is_of = [&](std::string_view module) {
    return name.ends_with(std::string(module) + ".weight") ||
           name.ends_with(std::string(module) + ".bias");
  };
  if (is_of(".attn_q")) return config.num_attention_heads;
  if (is_of(".attn_k")) return config.num_key_value_heads;
  return 0;
}

int64_t checkpoint_row(int64_t row, int64_t num_rows, int64_t num_heads) {
  const int64_t head_rows = num_rows / num_heads;
  const int64_t in_head = row % head_rows;
  return row - in_head + in_head % 2 * (head_rows / 2) + in_head / 2;
}

int64_t stored_row(int64_t row, int64_t num_rows, int64_t num_heads) {
  const int64_t half = num_rows / num_heads / 2;
  const int64_t in_head = row % (2 * half);
  return row - in_head + in_head % half * 2 + in_head / half;
}

}  // namespace reprise::weights::gguf
