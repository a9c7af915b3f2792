#include "reprise/device/cuda/generated_code.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/device/cuda/cuda_device_impl.h"

namespace reprise::device::cuda {
namespace {

/// Checks that the image is complete. The driver gets an address without a size and trusts the
/// sizes in the ELF header.
void require_whole(std::span<const std::byte> image) {
  Elf64_Ehdr header{};
  const bool has_header = image.size() >= sizeof(header);
  if (has_header) std::memcpy(&header, image.data(), sizeof(header));
  const uint64_t table_bytes = uint64_t{header.e_shnum} * header.e_shentsize;
  if (!has_header || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shoff > image.size() || table_bytes > image.size() - header.e_shoff) {
    throw CodeLoadError("generated code: the image is not an ELF file, or is cut short");
  }
}

class LoadedCubin final : public LoadedCode {
 public:
  LoadedCubin(KernelCode& code,
              std::span<const std::byte> image,
              std::span<const std::string> functions,
              uint32_t threads_per_block)
      : code_(&code),
        image_(image.begin(), image.end()),
        functions_(functions.begin(), functions.end()),
        threads_per_block_(threads_per_block) {
    require_whole(image_);
    code_->load_generated(image_.data(), functions_);
  }
  LoadedCubin(const LoadedCubin&) = delete;
  LoadedCubin& operator=(const LoadedCubin&) = delete;
  ~LoadedCubin() override { code_->unload(image_.data()); }

  [[nodiscard]] Kernel kernel(std::string_view function, const char* name) const override {
    const auto found = std::ranges::find(functions_, function);
    REPRISE_ASSERT(found != functions_.end(), "'{}' was not loaded", function);
    return {.name = name,
            .cuda = {.image = image_.data(),
                     .function = found->c_str(),
                     .threads_per_block = threads_per_block_}};
  }

 private:
  KernelCode* code_;  // owned by the device
  std::vector<std::byte> image_;
  std::vector<std::string> functions_;
  uint32_t threads_per_block_;
};

class CubinLoader final : public CodeLoader {
 public:
  CubinLoader(CudaDevice& device, uint32_t threads_per_block)
      : device_(&device), threads_per_block_(threads_per_block) {}

  [[nodiscard]] std::unique_ptr<LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const override {
    try {
      return std::make_unique<LoadedCubin>(device_->code(), object, functions, threads_per_block_);
    } catch (const DeviceError& error) {
      if (error.is_sticky()) throw;
      throw CodeLoadError(error.what());
    } catch (const OutOfMemory& error) {
      throw CodeLoadError(error.what());
    }
  }

 private:
  CudaDevice* device_;
  uint32_t threads_per_block_;
};

}  // namespace

std::unique_ptr<CodeLoader> create_cubin_loader(Device& device, uint32_t threads_per_block) {
  return std::make_unique<CubinLoader>(dynamic_cast<CudaDevice&>(device), threads_per_block);
}

}  // namespace reprise::device::cuda
