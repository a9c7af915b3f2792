#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/cpu/cpu_features.h"

namespace reprise::kernels {

/// The instruction sets that kernels are built for, weakest first. `scalar` is portable code for
/// the baseline of the platform (SSE2 on x86-64). `avx512_vnni` is `avx512` with other products of
/// bytes. `amx_software` is the same code with the tiles of `amx` in software: slow, for tests of
/// the kernels that use tiles on any machine. Only programs for tests have it.
enum class Isa : uint8_t { amx_software, scalar, avx2, avx512, avx512_vnni, avx512_bf16, amx };

/// "scalar", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx", "amx_software".
[[nodiscard]] std::string_view isa_name(Isa isa) noexcept;
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view name) noexcept;

/// Whether this program has kernels for `isa` and the CPU can run them.
[[nodiscard]] bool is_supported(Isa isa, const device::CpuFeatures& features) noexcept;
/// Why not: the missing features, or that Linux refuses them. Empty if it is supported.
[[nodiscard]] std::string why_unsupported(Isa isa, const device::CpuFeatures& features);
/// The fastest supported instruction set: the strongest one, but not avx512_bf16 on processors
/// whose products of bfloat16 pairs are slow.
[[nodiscard]] Isa best_isa(const device::CpuFeatures& features) noexcept;
/// All supported instruction sets but amx_software, weakest first. Never empty.
[[nodiscard]] std::vector<Isa> supported_isas(const device::CpuFeatures& features);

}  // namespace reprise::kernels
