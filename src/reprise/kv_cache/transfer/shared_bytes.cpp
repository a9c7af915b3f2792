#include "reprise/kv_cache/transfer/shared_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

SharedBytes::SharedBytes(size_t size) : size_(size) {
  descriptor_ = memfd_create("reprise-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // Takes the memory now: writing to it later without memory would end the process.
  if (descriptor_ >= 0) errno = posix_fallocate(descriptor_, 0, static_cast<off_t>(size));
  if (descriptor_ < 0 || errno != 0) {
    const std::string why = reason();
    release();
    throw OutOfMemory(fmt::format("{} bytes to share with another process: {}", size, why));
  }
  map(PROT_READ | PROT_WRITE, MAP_SHARED);
}

SharedBytes SharedBytes::adopt(int descriptor, size_t size) {
  SharedBytes bytes;
  bytes.descriptor_ = descriptor;
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || std::cmp_not_equal(status.st_size, size)) {
    throw Error(fmt::format("expected {} bytes of shared memory, got {}", size, status.st_size));
  }
  if ((fcntl(descriptor, F_GET_SEALS) & kSealed) != kSealed) {
    throw Error("expected sealed shared memory, got memory that may still change");
  }
  bytes.size_ = size;
  bytes.map(PROT_READ, MAP_PRIVATE);
  return bytes;
}

SharedBytes::SharedBytes(SharedBytes&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedBytes& SharedBytes::operator=(SharedBytes&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedBytes::~SharedBytes() { release(); }

void SharedBytes::seal() {
  // A file with a writable mapping cannot be sealed. The new mapping is private, because older
  // kernels refuse shared mappings of sealed files. Nothing is written, so nothing is copied.
  munmap(std::exchange(data_, nullptr), size_);
  if (fcntl(descriptor_, F_ADD_SEALS, kSealed | F_SEAL_SEAL) != 0) {
    throw Error(fmt::format("shared memory cannot be sealed: {}", reason()));
  }
  map(PROT_READ, MAP_PRIVATE);
}

void SharedBytes::map(int protection, int flags) {
  void* const address = mmap(nullptr, size_, protection, flags, descriptor_, 0);
  if (address == MAP_FAILED) {
    const std::string why = reason();
    release();
    throw OutOfMemory(fmt::format("shared memory cannot be mapped: {}", why));
  }
  data_ = static_cast<std::byte*>(address);
}

void SharedBytes::release() noexcept {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
}

}  // namespace reprise::kv_cache
