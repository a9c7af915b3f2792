#include "reprise/device/cuda/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace reprise::device::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

LoadedDriver refused(std::string reason) { return {.api = {}, .reason = std::move(reason)}; }

LoadedDriver open_driver() {
  // The driver cannot be unloaded safely.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return refused(fmt::format("no NVIDIA driver here ({})", dlerror()));
  using GetProcAddress = decltype(&::cuGetProcAddress);
  auto* get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    return refused(fmt::format(
        "the NVIDIA driver's {} is older than CUDA 12, and CUDA 13 is needed", kLibrary));
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
    return refused(
        fmt::format("the NVIDIA driver has no {} of CUDA {}.{}; a newer driver is needed",
                    missing,
                    CUDA_VERSION / 1000,
                    CUDA_VERSION % 1000 / 10));
  }
  return driver;
}

}  // namespace

LoadedDriver load_driver() {
  static const LoadedDriver driver = open_driver();
  return driver;
}

}  // namespace reprise::device::cuda
