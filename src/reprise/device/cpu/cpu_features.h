#pragma once

#include <string>

namespace reprise::device {

/// The instruction sets that kernels may use: the processor has them, and the operating system
/// saves their registers.
struct CpuFeatures {
  bool avx = false;
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
  bool avx512dq = false;
  bool avx512_vnni = false;
  bool avx512_vbmi = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  /// Whether products of float32 are faster than those of pairs of bfloat16 (vdpbf16ps), which is
  /// so on Intel's processors since Sapphire Rapids.
  bool has_slow_bf16_pairs = false;
  // False if Linux did not permit this process to use AMX.
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  /// If the processor has AMX but Linux refused the permission: the error number. Otherwise 0.
  int amx_refusal = 0;

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

/// Reads CPUID and XGETBV, and asks Linux for permission to use AMX if the processor has it. The
/// permission holds for all threads of the process. On machines that are not x86-64, all flags are
/// false.
[[nodiscard]] CpuFeatures detect_cpu_features() noexcept;

/// The names of the instruction sets, as Linux writes them, separated by spaces.
[[nodiscard]] std::string to_string(const CpuFeatures& features);

/// The name that the processor reports ("AMD EPYC 9654 96-Core Processor"), or "unknown CPU".
[[nodiscard]] std::string cpu_model_name();

}  // namespace reprise::device
