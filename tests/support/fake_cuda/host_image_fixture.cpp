#include "tests/support/fake_cuda/host_image_fixture.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <utility>

#include "reprise/kernels/row_group/row_group_arguments.h"
#include "tests/support/fake_cuda/host_block_fixture.h"

namespace reprise::kernels::cuda {
namespace {

using device::cuda::FakeImage;
using device::cuda::FakeKernel;
using device::cuda::FakeLaunch;

// Opens equal bytes only once. Libraries are never closed.
void* open_library(std::span<const std::byte> object) {
  static std::map<std::string, void*> libraries;
  std::string bytes(reinterpret_cast<const char*>(object.data()), object.size());
  if (const auto found = libraries.find(bytes); found != libraries.end()) return found->second;
  const int file = memfd_create("row_groups.so", 0);
  if (file < 0) return nullptr;
  void* library = nullptr;
  if (::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    library = dlopen(fmt::format("/proc/self/fd/{}", file).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    close(file);
    return nullptr;
  }
  // Does not close the file: otherwise the next file would get the same path, and the loader would
  // take that file for this library.
  return libraries.emplace(std::move(bytes), library).first->second;
}

}  // namespace

FakeImage load_host_image(std::span<const std::byte> object) {
  void* library = open_library(object);
  if (library == nullptr) return {};
  return [library](const std::string& function) -> std::optional<FakeKernel> {
    auto* run = reinterpret_cast<void (*)(const void*)>(dlsym(library, function.c_str()));
    const auto* shared_bytes =
        static_cast<const unsigned*>(dlsym(library, (function + "_shared_bytes").c_str()));
    if (run == nullptr || shared_bytes == nullptr) return std::nullopt;
    return FakeKernel{.parameter_bytes = sizeof(RowGroupArguments),
                      .run = [run, bytes = *shared_bytes](const FakeLaunch& launch) {
                        run_on_host({.num_blocks = launch.num_blocks,
                                     .first_block = 0,
                                     .last_block = launch.num_blocks,
                                     .threads_per_block = launch.threads_per_block,
                                     .shared_bytes = bytes,
                                     .must_wait = true},
                                    [&] { run(launch.parameter); });
                      }};
  };
}

FakeImage read_host_image(const void* object) {
  Elf64_Ehdr header;
  std::memcpy(&header, object, sizeof header);
  const size_t bytes = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  return load_host_image({static_cast<const std::byte*>(object), bytes});
}

}  // namespace reprise::kernels::cuda
