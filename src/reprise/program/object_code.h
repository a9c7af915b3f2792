#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// The bytes are not an object that can be loaded: they are damaged, for another machine, or need a
/// symbol that does not exist. The message names the structure of the file.
class ObjectCodeError : public device::CodeLoadError {
 public:
  using CodeLoadError::CodeLoadError;
};

/// Machine code of a relocatable ELF object, in memory and ready to be called. The object comes
/// from a code generator, or from a cache of an earlier run. All generated code enters the process
/// here, and loading needs no compiler.
///
/// Generated kernels consist of code, constants and zeros that refer to each other. ObjectCode
/// refuses writable data, thread-locals, constructors and symbols from elsewhere. Code is never
/// writable and data never executable. Every offset of the file is checked, so damaged bytes are an
/// error and not a crash. Damage inside the code itself is not found: a checksum must exclude it.
///
/// ObjectCode owns the mapping: functions are valid until it is destroyed. It is immutable, so any
/// thread may use it.
class ObjectCode {
 public:
  /// Copies the parts of `object` that it needs. \throws ObjectCodeError, OutOfMemory
  [[nodiscard]] static ObjectCode load(std::span<const std::byte> object);

  ObjectCode(ObjectCode&& other) noexcept;
  ObjectCode& operator=(ObjectCode&& other) noexcept;
  ~ObjectCode();

  /// The exported function of that name, or nullptr. The caller gives the type of the function:
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
