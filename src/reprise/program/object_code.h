#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// The bytes are not an object that can be loaded: they are damaged, were made for another machine,
/// or need a symbol that is not in the object. The message names the faulty structure of the file.
class ObjectCodeError : public device::CodeLoadError {
 public:
  using CodeLoadError::CodeLoadError;
};

/// Machine code from a relocatable ELF object, loaded into memory and ready to be called. The
/// object comes from a code generator, or from the cache of an earlier run. All generated CPU code
/// is loaded here, and loading needs no compiler.
///
/// Generated kernels contain only code, constants and zero-initialised data, with references among
/// them. ObjectCode rejects everything else: writable data, thread-local data, constructors and
/// undefined symbols. Code is never writable, and data is never executable. Every offset in the
/// file is checked, so a damaged file raises an error instead of crashing. A changed instruction is
/// not detected: the caller must verify a checksum first.
///
/// ObjectCode owns the mapped memory, so its functions are valid until it is destroyed. It is
/// immutable, so any thread may use it.
class ObjectCode {
 public:
  /// Copies the sections that are needed out of `object`. \throws ObjectCodeError, OutOfMemory
  [[nodiscard]] static ObjectCode load(std::span<const std::byte> object);

  ObjectCode(ObjectCode&& other) noexcept;
  ObjectCode& operator=(ObjectCode&& other) noexcept;
  ~ObjectCode();

  /// The exported function with this name, or nullptr. The caller states the type of the function:
  /// `code.find<device::CpuKernelFunction>("add_rms_norm")`.
  template <typename FunctionPointer>
  [[nodiscard]] FunctionPointer find(std::string_view name) const noexcept {
    return reinterpret_cast<FunctionPointer>(address_of(name));
  }
  /// Names of the exported functions, in the order of the object.
  [[nodiscard]] std::vector<std::string_view> function_names() const;
  /// The number of mapped bytes.
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  struct Function {
    std::string name;
    void* address = nullptr;
  };

  ObjectCode() = default;
  [[nodiscard]] void* address_of(std::string_view name) const noexcept;

  void* memory_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Function> functions_;
};

}  // namespace reprise::program
