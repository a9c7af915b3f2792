#include "reprise/device/cuda/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace reprise::device::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// A driver runs the code of every toolkit that has the driver's major version.
constexpr int kNeededMajor = CUDA_VERSION / 1000;

std::string advice() { return fmt::format("install a driver for CUDA {} or newer", kNeededMajor); }

LoadedDriver refused(std::string reason) { return {.api = {}, .reason = std::move(reason)}; }

LoadedDriver open_driver() {
  // The driver cannot be unloaded safely.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return refused(
        fmt::format("no NVIDIA driver here ({}); install one for CUDA {} or newer, or give the "
                    "container access "
                    "to the machine's GPUs",
                    dlerror(),
                    kNeededMajor));
  }
  using GetProcAddress = decltype(&::cuGetProcAddress);
  auto* get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    return refused(fmt::format("the NVIDIA driver is older than CUDA 12; {}", advice()));
  }
  auto* get_version =
      reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (get_version != nullptr && get_version(&version) == CUDA_SUCCESS &&
      version / 1000 < kNeededMajor) {
    return refused(fmt::format(
        "the NVIDIA driver is for CUDA {}.{}; {}", version / 1000, version % 1000 / 10, advice()));
  }
  LoadedDriver driver;
  const char* missing = nullptr;
  const auto resolve = [&](const char* symbol, void** place) {
    CUdriverProcAddressQueryResult status{};
    // Asks for the function in the version of this header, even if the driver has newer versions.
    const CUresult result = get(symbol, place, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    if (missing == nullptr && (result != CUDA_SUCCESS || *place == nullptr)) missing = symbol;
  };
#define REPRISE_CUDA_RESOLVE(member, symbol) \
  resolve(#symbol, reinterpret_cast<void**>(&driver.api.member));
  REPRISE_CUDA_DRIVER_FUNCTIONS(REPRISE_CUDA_RESOLVE)
#undef REPRISE_CUDA_RESOLVE
  if (missing != nullptr) {
    return refused(fmt::format("the NVIDIA driver has no {}; {}", missing, advice()));
  }
  return driver;
}

}  // namespace

LoadedDriver load_driver() {
  static const LoadedDriver driver = open_driver();
  return driver;
}

}  // namespace reprise::device::cuda
