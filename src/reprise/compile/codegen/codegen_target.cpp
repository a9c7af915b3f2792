#include "reprise/compile/codegen/codegen_target.h"

#include <fmt/format.h>

#include <string_view>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::compile {
namespace {

using kernels::Isa;

// The version of the LLVM headers that the plug-in is built with, set by CMake; empty without the
// plug-in.
constexpr std::string_view kLlvmVersion = REPRISE_LLVM_VERSION;

}  // namespace

int lanes_of(Isa isa) noexcept {
  switch (isa) {
    case Isa::amx_software:
    case Isa::scalar:
      return 4;
    case Isa::avx2:
      return 8;
    case Isa::avx512:
    case Isa::avx512_vnni:
    case Isa::avx512_bf16:
    case Isa::amx:
      return 16;
  }
  return 4;
}

const char* target_features(Isa isa) noexcept {
  switch (isa) {
    case Isa::amx_software:
    case Isa::scalar:
      return "+sse2";
    case Isa::avx2:
      return "+avx2,+fma,+f16c";
    case Isa::avx512:
    case Isa::avx512_vnni:
      return "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+evex512";
    case Isa::amx:
      return "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni,+evex512";
    case Isa::avx512_bf16:
      return "+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512bf16,+evex512";
  }
  return "";
}

std::string codegen_identity(Isa isa) {
  if (kLlvmVersion.empty()) return {};
  return fmt::format("llvm {} codegen {} row_group {} cpu {} features {} lanes {} exact_rounding",
                     kLlvmVersion,
                     kCodegenAbi,
                     kernels::kRowGroupAbi,
                     kTargetCpu,
                     target_features(isa),
                     lanes_of(isa));
}

}  // namespace reprise::compile
