#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/device/kernel.h"

namespace reprise::device {

/// Machine code cannot be loaded: damaged, made for another machine, or without a function that was
/// asked for. The device is as it was, and can do without.
class CodeLoadError : public Error {
 public:
  using Error::Error;
};

/// Machine code that was generated, where it runs. Owns it: launches of its kernels, and graphs of
/// such launches, must be gone before it is destroyed, and the device after it.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  /// The code of a function that was loaded, for a kernel of that name; the name is borrowed.
  /// \pre `function` is one of those that load() was asked for
  [[nodiscard]] virtual Kernel kernel(std::string_view function, const char* name) const = 0;
};

/// Brings generated code to one device. Constant, so any thread may use it.
class CodeLoader {
 public:
  virtual ~CodeLoader() = default;
  /// Loads `functions` of `object` at once: their launches load nothing more, so they may be the
  /// first in a capture. Copies what it needs. \pre the calling thread does not capture
  /// \throws CodeLoadError, or a sticky DeviceError
  [[nodiscard]] virtual std::unique_ptr<LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const = 0;
};

}  // namespace reprise::device
