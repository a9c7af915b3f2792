#pragma once

#include <cstdint>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles CUDA source with the host's compiler, through block.cuh, to a shared object for
/// load_host_image(). If the source does not compile, the result is empty and the compiler's
/// messages go to stderr. Each source is compiled once per process.
[[nodiscard]] std::string compile_on_host(const std::string& source);

/// An NVRTC for tests whose cubins are shared objects of the host. Its version is the build's. The
/// library's functions know no object, so there is at most one at a time. One thread.
class FakeNvrtc {
 public:
  FakeNvrtc();
  FakeNvrtc(const FakeNvrtc&) = delete;
  FakeNvrtc& operator=(const FakeNvrtc&) = delete;
  ~FakeNvrtc();

  [[nodiscard]] LoadedNvrtc open();
  /// Calls of any function since the last fail_call(); of them, number `k` fails. 0 = none.
  void fail_call(uint64_t k);
  [[nodiscard]] uint64_t num_calls() const noexcept;
  [[nodiscard]] bool has_failed() const noexcept;
  /// Times it was opened, programs that were compiled, and programs that were not given back.
  [[nodiscard]] uint64_t num_opened() const noexcept;
  [[nodiscard]] uint64_t num_compilations() const noexcept;
  [[nodiscard]] uint64_t num_programs() const noexcept;
};

}  // namespace reprise::compile
