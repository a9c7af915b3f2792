#include "reprise/device/cuda/usable_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace reprise::device::cuda {
namespace {

std::string failed(const DriverApi& api, const char* call, CUresult result) {
  const char* name = nullptr;
  (void)api.get_error_name(result, &name);
  return fmt::format(
      "the NVIDIA driver finds no GPU that it can use ({}: {}); look at nvidia-smi "
      "and at CUDA_VISIBLE_DEVICES",
      call,
      name != nullptr ? name : "an error without a name");
}

}  // namespace

bool runs_on(std::string_view architectures, int major, int minor) {
  const int capability = major * 10 + minor;
  bool is_first = true;
  while (!architectures.empty()) {
    const std::string_view word = architectures.substr(0, architectures.find(' '));
    architectures.remove_prefix(std::min(word.size() + 1, architectures.size()));
    int number = 0;
    const char* end = std::from_chars(word.data(), word.data() + word.size(), number).ptr;
    // Code for "90a" runs on no other GPU. Other machine code also runs on later GPUs of the same
    // major version, and PTX on all later GPUs.
    const bool is_for_one = end != word.data() + word.size();
    const bool is_later = capability >= number;
    if (capability == number) return true;
    if (!is_for_one && is_later && (is_first || number / 10 == major)) return true;
    is_first = false;
  }
  return false;
}

std::string why_not_usable(const DriverApi& api, int device_index, std::string_view architectures) {
  if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
    return failed(api, "cuInit", result);
  }
  int count = 0;
  if (const CUresult result = api.device_get_count(&count); result != CUDA_SUCCESS) {
    return failed(api, "cuDeviceGetCount", result);
  }
  if (device_index >= count) {
    return fmt::format(
        "the NVIDIA driver finds {} GPU{}; look at nvidia-smi and at "
        "CUDA_VISIBLE_DEVICES",
        count,
        count == 1 ? "" : "s");
  }
  CUdevice device = 0;
  int major = 0;
  int minor = 0;
  std::array<char, 256> name{};
  if (api.device_get(&device, device_index) != CUDA_SUCCESS ||
      api.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
          CUDA_SUCCESS ||
      api.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
          CUDA_SUCCESS ||
      api.device_get_name(name.data(), static_cast<int>(name.size()), device) != CUDA_SUCCESS) {
    return {};  // opening the device reports the error
  }
  if (runs_on(architectures, major, minor)) return {};
  return fmt::format(
      "{} has compute capability {}.{}, and this build has code for sm {}; {}",
      name.data(),
      major,
      minor,
      architectures,
      major < 8 ? "the kernels need 8.0 or newer"
                : fmt::format("build with -DREPRISE_CUDA_ARCHITECTURES={}{}", major, minor));
}

}  // namespace reprise::device::cuda
