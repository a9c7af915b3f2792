#include "reprise/device/cpu/cpu_features.h"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace reprise::device {
namespace {

#if defined(__x86_64__)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) noexcept {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool bit(uint64_t word, int index) noexcept { return ((word >> index) & 1) != 0; }

// Which registers the operating system saves on a context switch.
uint64_t saved_state() noexcept {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool is_from_intel() noexcept {
  const Registers r = cpuid(0);
  std::array<uint32_t, 3> name = {r.ebx, r.edx, r.ecx};
  return std::memcmp(name.data(), "GenuineIntel", sizeof name) == 0;
}

// The state of tiles is so large that Linux saves it only for processes that ask for it. A process
// may ask any number of times.
int request_tiles() noexcept {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 0 : errno;
}

#endif

}  // namespace

CpuFeatures detect_cpu_features() noexcept {
  CpuFeatures features;
#if defined(__x86_64__)
  // Source: Intel SDM vol. 1, sections 14.3 and 15.2-15.4; vol. 2, CPUID.
  const Registers leaf1 = cpuid(1);
  const bool os_saves_registers = bit(leaf1.ecx, 27);
  if (!os_saves_registers) return features;
  const uint64_t saved = saved_state();
  const bool ymm = (saved & 0x6) == 0x6;                  // SSE, AVX
  const bool zmm = ymm && (saved & 0xe0) == 0xe0;         // opmask, upper ZMM0-15, ZMM16-31
  const bool saves_tiles = (saved & 0x60000) == 0x60000;  // TILECFG, TILEDATA

  const Registers leaf7 = cpuid(7, 0);
  const Registers leaf7_1 = leaf7.eax >= 1 ? cpuid(7, 1) : Registers{};
  features.avx = ymm && bit(leaf1.ecx, 28);
  features.avx2 = ymm && bit(leaf7.ebx, 5);
  features.fma = ymm && bit(leaf1.ecx, 12);
  features.f16c = ymm && bit(leaf1.ecx, 29);
  features.avx_vnni = ymm && bit(leaf7_1.eax, 4);
  features.avx512f = zmm && bit(leaf7.ebx, 16);
  features.avx512dq = zmm && bit(leaf7.ebx, 17);
  features.avx512bw = zmm && bit(leaf7.ebx, 30);
  features.avx512vl = zmm && bit(leaf7.ebx, 31);
  features.avx512_vbmi = zmm && bit(leaf7.ecx, 1);
  features.avx512_vnni = zmm && bit(leaf7.ecx, 11);
  features.avx512_bf16 = zmm && bit(leaf7_1.eax, 5);
  features.avx512_fp16 = zmm && bit(leaf7.edx, 23);
  // Cooper Lake is the only other processor of Intel with these pairs, and has no float16. An
  // Emerald Rapids starts 0.46 vdpbf16ps in a cycle, but 1.85 products of float32; Zen 4 starts one
  // of each.
  features.has_slow_bf16_pairs = features.avx512_bf16 && features.avx512_fp16 && is_from_intel();
  const bool has_tiles = saves_tiles && bit(leaf7.edx, 24);
  features.amx_refusal = has_tiles ? request_tiles() : 0;
  const bool tiles = has_tiles && features.amx_refusal == 0;
  features.amx_tile = tiles;
  features.amx_bf16 = tiles && bit(leaf7.edx, 22);
  features.amx_int8 = tiles && bit(leaf7.edx, 25);
#endif
  return features;
}

std::string to_string(const CpuFeatures& features) {
  std::string text;
  const auto add = [&text](bool present, const char* name) {
    if (!present) return;
    if (!text.empty()) text += ' ';
    text += name;
  };
  add(features.avx, "avx");
  add(features.avx2, "avx2");
  add(features.fma, "fma");
  add(features.f16c, "f16c");
  add(features.avx_vnni, "avx_vnni");
  add(features.avx512f, "avx512f");
  add(features.avx512bw, "avx512bw");
  add(features.avx512vl, "avx512vl");
  add(features.avx512dq, "avx512dq");
  add(features.avx512_vnni, "avx512_vnni");
  add(features.avx512_vbmi, "avx512_vbmi");
  add(features.avx512_bf16, "avx512_bf16");
  add(features.avx512_fp16, "avx512_fp16");
  add(features.amx_tile, "amx_tile");
  add(features.amx_int8, "amx_int8");
  add(features.amx_bf16, "amx_bf16");
  return text;
}

std::string cpu_model_name() {
#if defined(__x86_64__)
  if (cpuid(0x80000000).eax >= 0x80000004) {
    std::array<char, 49> name{};
    for (uint32_t i = 0; i < 3; ++i) {
      const Registers r = cpuid(0x80000002 + i);
      std::memcpy(name.data() + size_t{16} * i, &r, sizeof r);
    }
    std::string text(name.data());
    const size_t first = text.find_first_not_of(' ');
    if (first != std::string::npos) {
      return text.substr(first, text.find_last_not_of(' ') - first + 1);
    }
  }
#endif
  return "unknown CPU";
}

}  // namespace reprise::device
