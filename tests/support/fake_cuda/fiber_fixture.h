#pragma once

#include <cstddef>
#include <memory>

/// For tests: a function with a stack of its own that its caller leaves and resumes.
namespace reprise::kernels::cuda {

/// Where a thread of the host left a stack. A switch costs a few nanoseconds, because tests of
/// kernels make a hundred million of them.
class StackPlace {
 public:
  /// Leaves the running stack here and goes on at `to`.
  void leave_for(StackPlace& to);
  /// The place will run `entry`, which never returns, on `stack`.
  void begin(char* stack, size_t bytes, void (*entry)());

 private:
  void* place_ = nullptr;  // the stack pointer, or a ucontext_t
  std::shared_ptr<void> context_;
};

}  // namespace reprise::kernels::cuda
