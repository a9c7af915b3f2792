#include "reprise/kernels/isa.h"

#include <fmt/format.h>

#include <array>
#include <system_error>
#include <utility>

#include "reprise/kernels/kernel_table.h"

namespace reprise::kernels {
namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 7> kNames = {
    {{Isa::amx_software, "amx_software"},
     {Isa::scalar, "scalar"},
     {Isa::avx2, "avx2"},
     {Isa::avx512, "avx512"},
     {Isa::avx512_vnni, "avx512_vnni"},
     {Isa::avx512_bf16, "avx512_bf16"},
     {Isa::amx, "amx"}}};

#ifdef REPRISE_KERNELS_X86
struct Need {
  Isa from;  // this instruction set and all stronger ones
  bool device::CpuFeatures::* feature;
  std::string_view name;
};
constexpr std::array<Need, 12> kNeeds = {
    {{Isa::avx2, &device::CpuFeatures::avx2, "avx2"},
     {Isa::avx2, &device::CpuFeatures::fma, "fma"},
     {Isa::avx2, &device::CpuFeatures::f16c, "f16c"},
     {Isa::avx512, &device::CpuFeatures::avx512f, "avx512f"},
     {Isa::avx512, &device::CpuFeatures::avx512bw, "avx512bw"},
     {Isa::avx512, &device::CpuFeatures::avx512vl, "avx512vl"},
     {Isa::avx512, &device::CpuFeatures::avx512dq, "avx512dq"},
     {Isa::avx512_vnni, &device::CpuFeatures::avx512_vnni, "avx512_vnni"},
     {Isa::avx512_bf16, &device::CpuFeatures::avx512_bf16, "avx512_bf16"},
     {Isa::amx, &device::CpuFeatures::amx_tile, "amx_tile"},
     {Isa::amx, &device::CpuFeatures::amx_bf16, "amx_bf16"},
     {Isa::amx, &device::CpuFeatures::amx_int8, "amx_int8"}}};
#endif

}  // namespace

std::string_view isa_name(Isa isa) noexcept {
  for (const auto& [value, name] : kNames) {
    if (value == isa) return name;
  }
  return "unknown";
}

std::optional<Isa> parse_isa(std::string_view text) noexcept {
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

bool is_supported(Isa isa, const device::CpuFeatures& features) noexcept {
  if (isa == Isa::amx_software) return amx_software_tables().with_invariance != nullptr;
#ifdef REPRISE_KERNELS_X86
  for (const Need& need : kNeeds) {
    if (isa >= need.from && !(features.*need.feature)) return false;
  }
  return true;
#else
  (void)features;
  return isa <= Isa::scalar;
#endif
}

std::string why_unsupported(Isa isa, const device::CpuFeatures& features) {
  if (is_supported(isa, features)) return {};
  if (isa == Isa::amx_software) return "this program has no such kernels";
#ifdef REPRISE_KERNELS_X86
  if (isa == Isa::amx && features.amx_refusal != 0) {
    return fmt::format("Linux refuses AMX tiles to this process ({})",
                       std::generic_category().message(features.amx_refusal));
  }
  std::string missing;
  for (const Need& need : kNeeds) {
    if (isa >= need.from && !(features.*need.feature)) missing += fmt::format(" {}", need.name);
  }
  return fmt::format("the CPU lacks{}", missing);
#else
  return "this build has no such kernels";
#endif
}

Isa best_isa(const device::CpuFeatures& features) noexcept {
  Isa best = Isa::scalar;
  for (const auto& [isa, name] : kNames) {
    if (isa == Isa::avx512_bf16 && features.has_slow_bf16_pairs) continue;
    if (is_supported(isa, features)) best = isa;
  }
  return best;
}

std::vector<Isa> supported_isas(const device::CpuFeatures& features) {
  std::vector<Isa> isas;
  for (const auto& [isa, name] : kNames) {
    if (isa != Isa::amx_software && is_supported(isa, features)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace reprise::kernels
