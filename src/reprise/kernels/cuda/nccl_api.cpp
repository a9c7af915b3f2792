#include "reprise/kernels/cuda/nccl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace reprise::kernels::cuda {
namespace {

constexpr const char* kName = "libnccl.so.2";
// The fault tolerance and the use with graphs that this project relies on are documented for it.
constexpr int kOldest = 22200;
constexpr int kFirstOfNextMajor = 30000;

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::string why_not_usable_nccl(int version) {
  if (version >= kOldest && version < kFirstOfNextMajor) return {};
  return fmt::format("{} is NCCL {}, and {} or a newer version 2 is needed",
                     kName,
                     nccl_version_text(version),
                     nccl_version_text(kOldest));
}

LoadedNccl load_nccl() {
  LoadedNccl loaded;
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    loaded.reason = fmt::format(
        "{}; install NCCL for CUDA 13: the package libnccl2 of NVIDIA's repository, or "
        "'pip install nvidia-nccl-cu13' and its folder nvidia/nccl/lib in "
        "LD_LIBRARY_PATH",
        dlerror());
    return loaded;
  }
#define REPRISE_NCCL_RESOLVE(member, symbol, Result, arguments)                               \
  loaded.api.member = reinterpret_cast<decltype(loaded.api.member)>(dlsym(library, #symbol)); \
  if (loaded.api.member == nullptr) loaded.reason = fmt::format("{} has no " #symbol, kName);
  REPRISE_NCCL_FUNCTIONS(REPRISE_NCCL_RESOLVE)
#undef REPRISE_NCCL_RESOLVE
  if (!loaded.reason.empty()) return loaded;
  if (loaded.api.get_version(&loaded.version) != NcclResult::success) {
    loaded.reason = fmt::format("{} does not tell its version", kName);
    return loaded;
  }
  loaded.reason = why_not_usable_nccl(loaded.version);
  return loaded;
}

}  // namespace reprise::kernels::cuda
