#pragma once

#include <cstdint>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles CUDA source with the host's compiler, through block.cuh, to a shared object for
/// load_host_image(). If the source does not compile, the result is empty and the compiler's
/// messages go to stderr. Each source is compiled once per process.
[[nodiscard]] std::string compile_on_host(const std::string& source);

/// A fake NVRTC for tests. Its cubins are shared objects of the host, and its version is that of
/// the NVRTC headers of this build. The library's functions have no object parameter, so at most
/// one FakeNvrtc may exist at a time. Use it on one thread.
class FakeNvrtc {
 public:
  FakeNvrtc();
  FakeNvrtc(const FakeNvrtc&) = delete;
  FakeNvrtc& operator=(const FakeNvrtc&) = delete;
  ~FakeNvrtc();

  [[nodiscard]] LoadedNvrtc open();
  /// Numbers the following calls 1, 2, ...; call number `k` fails. 0 = no call fails.
  void fail_call(uint64_t k);
  [[nodiscard]] uint64_t num_calls() const noexcept;
  [[nodiscard]] bool has_failed() const noexcept;
  /// How often the library was opened, how many programs were compiled, and how many were not
  /// destroyed.
  [[nodiscard]] uint64_t num_opened() const noexcept;
  [[nodiscard]] uint64_t num_compilations() const noexcept;
  [[nodiscard]] uint64_t num_programs() const noexcept;
};

}  // namespace reprise::compile
