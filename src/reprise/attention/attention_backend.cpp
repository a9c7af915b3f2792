#include "reprise/attention/attention_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::attention {
namespace {

using cudagraph::AttentionCGSupport;

constexpr std::string_view kUnified = "one path for every batch";
constexpr std::string_view kSeparate = "separate paths for uniform and other batches";
constexpr std::string_view kPlanned = "work planned before each step, long contexts in parts";

constexpr std::string_view kRecurrent = "states in slots, one token after the other";
constexpr std::string_view kReference = "one path for every batch, never in a FULL graph";

constexpr AttentionKind kMamba1 = AttentionKind::mamba1;
constexpr AttentionKind kMamba2 = AttentionKind::mamba2;
constexpr AttentionKind kDeltaNet = AttentionKind::gated_delta_net;
constexpr AttentionKind kShortConv = AttentionKind::short_conv;
constexpr AttentionKind kKeyValue = AttentionKind::key_value;
constexpr AttentionKind kLatent = AttentionKind::latent;
constexpr auto kNever = AttentionCGSupport::NEVER;
constexpr auto kDecodeOnly = AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE;
constexpr auto kUniform = AttentionCGSupport::UNIFORM_BATCH;
constexpr auto kAlways = AttentionCGSupport::ALWAYS;
constexpr auto kTwoIfAsked = cudagraph::FullGraphSets::two_if_asked;
constexpr std::array<std::string_view, 2> kRowScales = {"fp8_per_token_head",
                                                        "int8_per_token_head"};
constexpr std::array<std::string_view, 3> kNotE4M3 = {
    "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head"};
constexpr std::array<std::string_view, 5> kQuantized = {
    "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head"};

// The support levels are those of vLLM's backends. FLASH_ATTN 2 could declare more, but its level
// is lower on purpose: with ALWAYS, decode batches in mode FULL would replay graphs for mixed
// batches, which use the other attention path. Users who want its two sets of FULL graphs choose
// mode FULL_AND_FULL.
constexpr std::array kBackends = {
    BackendInfo{"UNIFIED", 0, kUnified, kKeyValue, kAlways, {}, create_unified_backend},
    BackendInfo{"FLASH_ATTN", 3, kUnified, kKeyValue, kAlways, kNotE4M3, create_unified_backend},
    BackendInfo{"FLASH_ATTN",
                2,
                kSeparate,
                kKeyValue,
                kUniform,
                kQuantized,
                create_separate_backend,
                kTwoIfAsked},
    BackendInfo{"ROCM_AITER_FA",
                0,
                kSeparate,
                kKeyValue,
                kUniform,
                kQuantized,
                create_uniform_graph_backend},
    BackendInfo{
        "TRITON_ATTN", 0, kSeparate, kKeyValue, kAlways, {}, create_separate_backend, kTwoIfAsked},
    BackendInfo{
        "FLASHINFER", 0, kPlanned, kKeyValue, kDecodeOnly, kRowScales, create_planned_backend},
    BackendInfo{
        "FLASHMLA", 0, kSeparate, kLatent, kUniform, kQuantized, create_uniform_graph_backend},
    BackendInfo{"FLASHINFER_MLA",
                0,
                kSeparate,
                kLatent,
                kUniform,
                kQuantized,
                create_uniform_graph_backend},
    BackendInfo{
        "CUTLASS_MLA", 0, kPlanned, kLatent, kDecodeOnly, kQuantized, create_planned_backend},
    BackendInfo{
        "ROCM_AITER_MLA", 0, kPlanned, kLatent, kDecodeOnly, kQuantized, create_planned_backend},
    BackendInfo{
        "TRITON_MLA", 0, kPlanned, kLatent, kDecodeOnly, kQuantized, create_planned_backend},
    BackendInfo{"MAMBA1_ATTN", 0, kRecurrent, kMamba1, kUniform, {}, create_recurrent_backend},
    BackendInfo{"MAMBA2_ATTN", 0, kRecurrent, kMamba2, kUniform, {}, create_recurrent_backend},
    BackendInfo{"GDN_ATTN", 0, kRecurrent, kDeltaNet, kUniform, {}, create_recurrent_backend},
    BackendInfo{
        "SHORT_CONV_ATTN", 0, kRecurrent, kShortConv, kUniform, {}, create_recurrent_backend},
    BackendInfo{"REFERENCE", 0, kReference, kKeyValue, kNever, {}, create_reference_backend},
    BackendInfo{"REFERENCE", 0, kReference, kLatent, kNever, kQuantized, create_reference_backend},
    BackendInfo{"REFERENCE", 0, kReference, kMamba1, kNever, {}, create_reference_backend},
    BackendInfo{"REFERENCE", 0, kReference, kMamba2, kNever, {}, create_reference_backend},
    BackendInfo{"REFERENCE", 0, kReference, kDeltaNet, kNever, {}, create_reference_backend},
    BackendInfo{"REFERENCE", 0, kReference, kShortConv, kNever, {}, create_reference_backend},
};

// Names of vLLM backends for which this engine uses the unified backend.
constexpr std::array<std::string_view, 5> kSameAsUnified = {
    "CPU_ATTN", "TORCH_SDPA", "XFORMERS", "ROCM_ATTN", "ROCM_AITER_UNIFIED_ATTN"};

const BackendInfo* find(std::string_view name,
                        int flash_attn_version,
                        std::optional<AttentionKind> kind) {
  const bool is_unified = std::ranges::find(kSameAsUnified, name) != kSameAsUnified.end();
  if (is_unified && kind.value_or(kKeyValue) == kKeyValue) return &kBackends.front();
  for (const BackendInfo& backend : kBackends) {
    const bool has_version =
        backend.version == 0 || flash_attn_version == 0 || backend.version == flash_attn_version;
    const bool has_name = backend.name == name || name == "auto";
    if (has_version && has_name && backend.kind == kind.value_or(backend.kind)) return &backend;
  }
  return nullptr;
}

std::string_view content_of(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::key_value:
      return "keys and values";
    case AttentionKind::latent:
      return "latents (MLA)";
    case AttentionKind::mamba1:
      return "states of Mamba-1";
    case AttentionKind::mamba2:
      return "states of Mamba-2";
    case AttentionKind::gated_delta_net:
      return "states of a gated delta net";
    case AttentionKind::short_conv:
      return "inputs of short convolutions";
  }
  return "?";
}

std::vector<std::string_view> names_of(std::optional<AttentionKind> kind) {
  std::vector<std::string_view> names = {"auto"};
  if (kind.value_or(kKeyValue) == kKeyValue)
    names.insert(names.end(), kSameAsUnified.begin(), kSameAsUnified.end());
  for (const BackendInfo& backend : kBackends) {
    if (kind && backend.kind != *kind) continue;
    if (std::ranges::find(names, backend.name) == names.end()) names.push_back(backend.name);
  }
  return names;
}

}  // namespace

std::span<const BackendInfo> attention_backends() { return kBackends; }

bool takes_cache_dtype(const BackendInfo& backend, const kv_cache::CacheDType& dtype) {
  return std::ranges::find(backend.refused_cache_dtypes, dtype.name) ==
         backend.refused_cache_dtypes.end();
}

void require_cache_dtype(const BackendInfo& backend, const kv_cache::CacheDType& dtype) {
  if (takes_cache_dtype(backend, dtype)) return;
  std::vector<std::string> others;
  for (const BackendInfo& other : kBackends) {
    if (other.kind != backend.kind || !takes_cache_dtype(other, dtype)) continue;
    others.push_back(other.version == 0 ? std::string(other.name)
                                        : fmt::format("{} {}", other.name, other.version));
  }
  throw InvalidArgument(fmt::format(
      "--kv-cache-dtype: the backend {}{} does not take {}; {}",
      backend.name,
      backend.version == 0 ? "" : fmt::format(" {}", backend.version),
      dtype.name,
      others.empty() ? "use auto: no backend of latent attention takes it"
                     : fmt::format("use --attention-backend {}", fmt::join(others, " or "))));
}

const BackendInfo& find_attention_backend(std::string_view name,
                                          int flash_attn_version,
                                          std::optional<AttentionKind> kind) {
  if (flash_attn_version != 0 && flash_attn_version != 2 && flash_attn_version != 3) {
    throw InvalidArgument(
        fmt::format("--flash-attn-version: {} is neither 2 nor 3", flash_attn_version));
  }
  // vLLM's flag selects a version of FLASH_ATTN, so "auto" together with the flag means FLASH_ATTN.
  if (name == "auto" && flash_attn_version != 0 && kind.value_or(kKeyValue) == kKeyValue)
    name = "FLASH_ATTN";
  if (const BackendInfo* found = find(name, flash_attn_version, kind)) return *found;
  const std::vector<std::string_view> known = names_of(kind);
  const BackendInfo* other = find(name, flash_attn_version, std::nullopt);
  if (other == nullptr) {
    throw InvalidArgument(fmt::format("--attention-backend: '{}' is not one of {}{}",
                                      name,
                                      fmt::join(known, ", "),
                                      did_you_mean(name, known)));
  }
  throw InvalidArgument(
      fmt::format("--attention-backend: '{}' is for layers that cache {}, but the layers of this "
                  "model cache {}; use one of {}",
                  name,
                  content_of(other->kind),
                  content_of(*kind),
                  fmt::join(known, ", ")));
}

}  // namespace reprise::attention
