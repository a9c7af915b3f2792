#include "reprise/weights/gguf/tensor_names.h"

#include <algorithm>
#include <array>
#include <charconv>
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

constexpr std::string_view kLayerPrefix = "blk.";

// The module of a router or of a shared expert; empty: the name is of something else.
std::string find_expert_module(std::string_view module, const DecoderTensors& names) {
  if (module == "ffn_gate_inp") return std::string(names.router);
  if (module == "ffn_gate_inp_shexp") return std::string(names.shared_expert_gate);
  const std::string shared(names.shared_expert);
  if (module == "ffn_gate_shexp") return shared + std::string(names.expert_gate);
  if (module == "ffn_up_shexp") return shared + std::string(names.expert_up);
  if (module == "ffn_down_shexp") return shared + std::string(names.expert_down);
  return {};
}

// A whole text as a number that is not negative; nothing: it is no such number.
std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<ExpertMatricesName> find_expert_matrices(std::string_view name,
                                                       const DecoderTensors& names) {
  constexpr std::string_view kWeight = ".weight";
  constexpr std::string_view kStacked = "_exps";
  if (!name.starts_with(kLayerPrefix) || !name.ends_with(kWeight)) return std::nullopt;
  name = name.substr(kLayerPrefix.size(), name.size() - kLayerPrefix.size() - kWeight.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> layer = number_of(name.substr(0, dot));
  std::string_view module = name.substr(dot + 1);
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
  const std::array<std::pair<std::string_view, std::string_view>, 3> modules = {
      {{"ffn_gate", names.expert_gate},
       {"ffn_up", names.expert_up},
       {"ffn_down", names.expert_down}}};
  const std::string_view found = find_module(modules, module);
  if (!layer || found.empty()) return std::nullopt;
  return ExpertMatricesName{.layer = *layer, .module = found, .expert = expert};
}

std::string hugging_face_name(std::string_view name,
                              const DecoderTensors& names,
                              Architecture architecture) {
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
  std::string module(has_gate_in_up ? "mlp.gate_up_proj"
                                    : find_module(kLayerNames, rest.substr(dot + 1)));
  if (module.empty()) module = find_expert_module(rest.substr(dot + 1), names);
  if (module.empty()) return std::string(name);
  return "model.layers." + std::string(rest.substr(0, dot)) + "." + module + std::string(suffix);
}

int64_t num_interleaved_heads(std::string_view name, const ModelConfig& config) {
  constexpr std::array kLikeLlama = {Architecture::llama,
                                     Architecture::mixtral,
                                     Architecture::granite,
                                     Architecture::granite_moe,
                                     Architecture::smollm3};
  if (std::ranges::find(kLikeLlama, config.architecture) == kLikeLlama.end()) return 0;
  if (!name.starts_with(kLayerPrefix)) return 0;
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
