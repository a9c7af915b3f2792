#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"

namespace reprise::device {

/// Machine code cannot be loaded: it is damaged, made for another machine, or lacks a requested
/// function. The device is unchanged and can still be used.
class CodeLoadError : public Error {
 public:
  using Error::Error;
};

/// Generated machine code on the device that runs it. Owns the code: launches of its kernels, and
/// graphs of such launches, must end before this object is destroyed, and the device must outlive
/// it.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  /// The code of a loaded function, as a kernel with the given name; the name is borrowed.
  /// \pre `function` is one of the functions passed to load()
  [[nodiscard]] virtual Kernel kernel(std::string_view function, const char* name) const = 0;
};

/// Loads generated code onto one device. Constant, so any thread may use it.
class CodeLoader {
 public:
  virtual ~CodeLoader() = default;
  /// Loads `functions` of `object` completely, so their first launch may happen in a capture.
  /// Copies the bytes that it needs. \pre the calling thread does not capture
  /// \throws CodeLoadError, or a sticky DeviceError
  [[nodiscard]] virtual std::unique_ptr<LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const = 0;
};

}  // namespace reprise::device
