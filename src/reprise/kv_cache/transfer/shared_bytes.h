#pragma once

#include <cstddef>
#include <span>

namespace reprise::kv_cache {

/// Bytes in memory that another process can map: an anonymous file, which has no name and so cannot
/// be left behind. One owner; move-only.
class SharedBytes {
 public:
  SharedBytes() = default;
  /// Makes `size` bytes of zeros, to be written. \throws OutOfMemory
  explicit SharedBytes(size_t size);
  /// Maps the sealed file of another process and takes over its descriptor. \throws Error if the
  /// file has another size, or is not sealed: if its owner made it shorter, a reader would crash
  static SharedBytes adopt(int descriptor, size_t size);
  SharedBytes(SharedBytes&& other) noexcept;
  SharedBytes& operator=(SharedBytes&& other) noexcept;
  ~SharedBytes();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// \pre not sealed
  [[nodiscard]] std::span<std::byte> writable() noexcept { return {data_, size_}; }
  /// Forbids all further changes of the bytes, also by this process. \throws Error
  void seal();
  /// The descriptor belongs to this object; -1: no bytes.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  void map(int protection, int flags);
  void release() noexcept;

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reprise::kv_cache
