#pragma once

#include <cstddef>
#include <memory>

/// For tests: a function with a stack of its own that its caller leaves and resumes.
namespace reprise::kernels::cuda {

/// The place at which a thread of the host left a stack. A switch takes only a few nanoseconds;
/// tests of kernels make a hundred million switches.
class StackPlace {
 public:
  /// Saves the running stack in this place and continues at `to`.
  void leave_for(StackPlace& to);
  /// The place will run `entry`, which never returns, on `stack`.
  void begin(char* stack, size_t bytes, void (*entry)());

 private:
  void* place_ = nullptr;  // the stack pointer, or a ucontext_t
  std::shared_ptr<void> context_;
};

}  // namespace reprise::kernels::cuda
