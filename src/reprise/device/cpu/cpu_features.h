#pragma once

#include <string>

namespace reprise::device {

/// Instruction sets that this machine has *and* whose registers the operating system saves. A
/// kernel may use an instruction set exactly when its flag is set.
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
  // Besides, the Linux kernel requires a process to request AMX (arch_prctl) before its first use.
  bool amx_tile = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;

  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

/// Reads CPUID and XGETBV. All flags are false on machines that are not x86-64.
[[nodiscard]] CpuFeatures detect_cpu_features() noexcept;

/// The names of the flags that are set, as Linux spells them, separated by spaces.
[[nodiscard]] std::string to_string(const CpuFeatures& features);

/// The name that the processor reports ("AMD EPYC 9654 96-Core Processor"), or "unknown CPU".
[[nodiscard]] std::string cpu_model_name();

}  // namespace reprise::device
