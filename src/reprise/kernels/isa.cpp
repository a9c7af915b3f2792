#include "reprise/kernels/isa.h"

#include <array>
#include <utility>

namespace reprise::kernels {
namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 4> kNames = {
    {{Isa::scalar, "scalar"},
     {Isa::avx2, "avx2"},
     {Isa::avx512, "avx512"},
     {Isa::avx512_bf16, "avx512_bf16"}}};

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
  if (isa == Isa::scalar) return true;
#ifdef REPRISE_KERNELS_X86
  const bool avx2 = features.avx2 && features.fma && features.f16c;
  const bool avx512 =
      avx2 && features.avx512f && features.avx512bw && features.avx512vl && features.avx512dq;
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx512;
    case Isa::avx512_bf16:
      // Every CPU with the one has the other; the integer products use it.
      return avx512 && features.avx512_bf16 && features.avx512_vnni;
  }
#else
  (void)features;
#endif
  return false;
}

Isa best_isa(const device::CpuFeatures& features) noexcept {
  Isa best = Isa::scalar;
  for (const auto& [isa, name] : kNames) {
    if (is_supported(isa, features)) best = isa;
  }
  return best;
}

std::vector<Isa> supported_isas(const device::CpuFeatures& features) {
  std::vector<Isa> isas;
  for (const auto& [isa, name] : kNames) {
    if (is_supported(isa, features)) isas.push_back(isa);
  }
  return isas;
}

}  // namespace reprise::kernels
