#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"

namespace reprise::device {

/// Machine code cannot be loaded: it is damaged, made for another machine, or lacks a function that
/// was asked for. The device has not changed and can still be used.
class CodeLoadError : public Error {
 public:
  using Error::Error;
};

/// Generated machine code that is loaded on a device. It owns the code, so it must outlive launches
/// of its kernels and graphs that contain them. The device must outlive it.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  /// The kernel for a loaded function. `name` becomes the kernel's name and is borrowed.
  /// \pre `function` was passed to load()
  [[nodiscard]] virtual Kernel kernel(std::string_view function, const char* name) const = 0;
};

/// Loads generated code onto one device. It is immutable, so any thread may use it.
class CodeLoader {
 public:
  virtual ~CodeLoader() = default;
  /// Loads the functions of `object`. They are loaded completely, so they may be launched for the
  /// first time in a capture. Copies the bytes that it needs. \pre the calling thread does not
  /// capture
  /// \throws CodeLoadError, or a sticky DeviceError
  [[nodiscard]] virtual std::unique_ptr<LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const = 0;
};

}  // namespace reprise::device
