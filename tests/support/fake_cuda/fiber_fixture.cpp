#include "tests/support/fake_cuda/fiber_fixture.h"

#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace reprise::kernels::cuda {

#if defined(__x86_64__)

// System V ABI: a function keeps these registers and the stack pointer for its caller; the caller
// itself must save all others.
extern "C" void reprise_switch_stack(void** leave, void* go_on);
asm(R"(
.text
.p2align 4
.globl reprise_switch_stack
.type reprise_switch_stack, @function
reprise_switch_stack:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size reprise_switch_stack, .-reprise_switch_stack
)");

void StackPlace::leave_for(StackPlace& to) { reprise_switch_stack(&place_, to.place_); }

void StackPlace::begin(char* stack, size_t bytes, void (*entry)()) {
  constexpr size_t kSavedRegisters = 6;
  auto* top =
      reinterpret_cast<uintptr_t*>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15});
  // Stands in the place of a return address, so that the stack is aligned as after a call.
  *--top = 0;
  *--top = reinterpret_cast<uintptr_t>(entry);
  for (size_t i = 0; i < kSavedRegisters; ++i) *--top = 0;
  place_ = top;
}

#else

void StackPlace::leave_for(StackPlace& to) {
  if (context_ == nullptr) context_ = std::make_shared<ucontext_t>();
  place_ = context_.get();
  swapcontext(static_cast<ucontext_t*>(place_), static_cast<const ucontext_t*>(to.place_));
}

void StackPlace::begin(char* stack, size_t bytes, void (*entry)()) {
  context_ = std::make_shared<ucontext_t>();
  place_ = context_.get();
  auto* context = static_cast<ucontext_t*>(place_);
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}

#endif

}  // namespace reprise::kernels::cuda
