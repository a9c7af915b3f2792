#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/device/cpu/cpu_features.h"

namespace reprise::kernels {

/// The instruction sets that kernels are built for, weakest first. `scalar` is portable code for
/// the baseline of the platform (SSE2 on x86-64).
enum class Isa : uint8_t { scalar, avx2, avx512, avx512_bf16 };

/// "scalar", "avx2", "avx512", "avx512_bf16".
[[nodiscard]] std::string_view isa_name(Isa isa) noexcept;
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view name) noexcept;

/// Whether this build has kernels for `isa` and the CPU can run them.
[[nodiscard]] bool is_supported(Isa isa, const device::CpuFeatures& features) noexcept;
/// The strongest supported instruction set.
[[nodiscard]] Isa best_isa(const device::CpuFeatures& features) noexcept;
/// All supported instruction sets, weakest first. Never empty.
[[nodiscard]] std::vector<Isa> supported_isas(const device::CpuFeatures& features);

}  // namespace reprise::kernels
