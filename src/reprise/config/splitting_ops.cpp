#include "reprise/config/splitting_ops.h"

#include <algorithm>
#include <array>

namespace reprise::config {
namespace {

constexpr std::array<std::string_view, 17> kAttentionOps = {
    "vllm::unified_attention_with_output",
    "vllm::unified_mla_attention_with_output",
    "vllm::mamba_mixer2",
    "vllm::mamba_mixer",
    "vllm::short_conv",
    "vllm::qwen4_exp_ple_short_conv",
    "vllm::qwen4_exp_qsa_with_output",
    "vllm::qwen4_exp_qsa_prepare_with_output",
    "vllm::linear_attention",
    "vllm::qwen_gdn_attention_core",
    "vllm::qwen_gdn_attention_core_fused_norm_packed",
    "vllm::gdn_attention_core_xpu",
    "vllm::olmo_hybrid_gdn_full_forward",
    "vllm::sparse_attn_indexer",
    "vllm::rocm_aiter_sparse_attn_indexer",
    "vllm::deepseek_v4_attention",
    "vllm::hpc_rope_norm_forward"};

constexpr std::array<std::string_view, 2> kKvCacheUpdateOps = {"vllm::unified_kv_cache_update",
                                                               "vllm::unified_mla_kv_cache_update"};

constexpr std::array<std::string_view, 2> kAtomAttentionOps = {
    "aiter.unified_attention_with_output", "aiter.mla_attention"};

// The two parts of an op's name. "aten.add.default" and "aten::add.default" are the same op.
struct OpName {
  std::string base;      // "aten::add"
  std::string overload;  // "default", or empty
};

OpName parse_op_name(std::string_view text) {
  OpName name;
  std::string_view rest = text;
  if (const size_t colons = text.find("::"); colons != std::string_view::npos) {
    name.base = std::string(text.substr(0, colons)) + "::";
    rest = text.substr(colons + 2);
  } else if (const size_t dot = text.find('.'); dot != std::string_view::npos) {
    name.base = std::string(text.substr(0, dot)) + "::";
    rest = text.substr(dot + 1);
  }
  const size_t overload = rest.find('.');
  name.base += rest.substr(0, overload);
  if (overload != std::string_view::npos) name.overload = rest.substr(overload + 1);
  return name;
}

}  // namespace

std::span<const std::string_view> attention_ops() noexcept { return kAttentionOps; }

std::span<const std::string_view> atom_attention_ops() noexcept { return kAtomAttentionOps; }

std::span<const std::string_view> kv_cache_update_ops() noexcept { return kKvCacheUpdateOps; }

bool splits_attention(std::span<const std::string> splitting_ops) {
  return is_splitting_op("vllm::unified_attention_with_output.default", splitting_ops) ||
         is_splitting_op("aiter::unified_attention_with_output.default", splitting_ops) ||
         std::find(splitting_ops.begin(), splitting_ops.end(), "attention") != splitting_ops.end();
}

bool contains_attention(std::span<const std::string> splitting_ops) noexcept {
  return std::all_of(kAttentionOps.begin(), kAttentionOps.end(), [&](std::string_view op) {
    return std::find(splitting_ops.begin(), splitting_ops.end(), op) != splitting_ops.end();
  });
}

bool is_splitting_op(std::string_view op, std::span<const std::string> splitting_ops) {
  const OpName wanted = parse_op_name(op);
  return std::any_of(splitting_ops.begin(), splitting_ops.end(), [&](const std::string& entry) {
    const OpName listed = parse_op_name(entry);
    if (listed.base != wanted.base) return false;
    // If the op's name has no overload, its overload is "default".
    std::string_view overload = wanted.overload;
    if (overload.empty()) overload = "default";
    return listed.overload.empty() || listed.overload == overload;
  });
}

}  // namespace reprise::config
