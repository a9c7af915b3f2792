#include "reprise/attention/attention_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::attention {
namespace {

using cudagraph::AttentionCGSupport;

constexpr std::string_view kUnified = "one path for every batch";
constexpr std::string_view kSeparate = "separate paths for uniform and other batches";
constexpr std::string_view kPlanned = "work planned before each step, long contexts in parts";

// The support levels are those of vLLM's backends. FLASH_ATTN 2 could declare more, but its level
// is lower on purpose: with ALWAYS, decode batches in mode FULL would replay graphs for mixed
// batches, which use the other attention path.
constexpr std::array kBackends = {
    BackendInfo{"UNIFIED", 0, kUnified, AttentionCGSupport::ALWAYS, create_unified_backend},
    BackendInfo{"FLASH_ATTN", 3, kUnified, AttentionCGSupport::ALWAYS, create_unified_backend},
    BackendInfo{
        "FLASH_ATTN", 2, kSeparate, AttentionCGSupport::UNIFORM_BATCH, create_separate_backend},
    BackendInfo{"TRITON_ATTN", 0, kSeparate, AttentionCGSupport::ALWAYS, create_separate_backend},
    BackendInfo{"FLASHINFER",
                0,
                kPlanned,
                AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE,
                create_planned_backend},
};

// Names of vLLM backends for which this engine uses the unified backend.
constexpr std::array<std::string_view, 4> kSameAsUnified = {
    "auto", "CPU_ATTN", "TORCH_SDPA", "XFORMERS"};

}  // namespace

std::span<const BackendInfo> attention_backends() { return kBackends; }

const BackendInfo& find_attention_backend(std::string_view name, int flash_attn_version) {
  if (flash_attn_version != 0 && flash_attn_version != 2 && flash_attn_version != 3) {
    throw InvalidArgument(
        fmt::format("--flash-attn-version: {} is neither 2 nor 3", flash_attn_version));
  }
  // vLLM's flag selects a version of FLASH_ATTN, so "auto" together with the flag means FLASH_ATTN.
  if (name == "auto" && flash_attn_version != 0) name = "FLASH_ATTN";
  if (std::ranges::find(kSameAsUnified, name) != kSameAsUnified.end()) return kBackends.front();
  std::vector<std::string_view> known(kSameAsUnified.begin(), kSameAsUnified.end());
  for (const BackendInfo& backend : kBackends) {
    const bool is_it =
        backend.version == 0 || flash_attn_version == 0 || backend.version == flash_attn_version;
    if (backend.name == name && is_it) return backend;
    if (known.back() != backend.name) known.push_back(backend.name);
  }
  throw InvalidArgument(fmt::format("--attention-backend: '{}' is not one of {}{}",
                                    name,
                                    fmt::join(known, ", "),
                                    did_you_mean(name, known)));
}

}  // namespace reprise::attention
