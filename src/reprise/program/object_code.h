#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// The bytes are no object that can be loaded: damaged, of another machine, or in need of what is
/// not there. The message says which structure of the file it is about.
class ObjectCodeError : public device::CodeLoadError {
 public:
  using CodeLoadError::CodeLoadError;
};

/// Machine code of a relocatable ELF object, in memory and ready to be called: what a code
/// generator made now, or a cache kept from an earlier run. There is no other way for generated
/// code into the process, and it needs no compiler.
///
/// It loads what generated kernels consist of: code, constants and zeros that refer to each other.
/// Writable data, thread-locals, constructors and symbols from elsewhere are refused. Code is never
/// writable and data never executable. Every offset of the file is checked, so damaged bytes are an
/// error and not a crash; that *intact* code does what it should is for a checksum to say.
///
/// Owns the mapping: functions are valid until it is destroyed. Immutable, so any thread may use
/// it.
class ObjectCode {
 public:
  /// Copies what it needs of `object`. \throws ObjectCodeError, OutOfMemory
  [[nodiscard]] static ObjectCode load(std::span<const std::byte> object);

  ObjectCode(ObjectCode&& other) noexcept;
  ObjectCode& operator=(ObjectCode&& other) noexcept;
  ~ObjectCode();

  /// The exported function of that name; nullptr if there is none. What its signature is, the
  /// caller knows: `code.find<device::CpuKernelFunction>("add_rms_norm")`.
  template <typename FunctionPointer>
  [[nodiscard]] FunctionPointer find(std::string_view name) const noexcept {
    return reinterpret_cast<FunctionPointer>(address_of(name));
  }
  /// Names of the exported functions, in the order of the object.
  [[nodiscard]] std::vector<std::string_view> function_names() const;
  /// Memory that is mapped.
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
