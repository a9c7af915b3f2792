#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprise::device {

/// During its lifetime, the calling thread has the default floating-point environment: round to
/// nearest, denormals kept, no traps. A program that embeds the engine may have set another one.
class FloatingPointScope {
 public:
#if defined(__x86_64__)
  FloatingPointScope() noexcept : saved_(_mm_getcsr()) {
    // The low six bits are results of earlier operations and not modes. Writing the register costs
    // more than reading it, so write only if the modes differ.
    if ((saved_ & ~kStickyFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~FloatingPointScope() {
    if ((saved_ & ~kStickyFlags) != kDefault) _mm_setcsr(saved_);
  }
#else
  FloatingPointScope() noexcept = default;
  ~FloatingPointScope() = default;
#endif
  FloatingPointScope(const FloatingPointScope&) = delete;
  FloatingPointScope& operator=(const FloatingPointScope&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint32_t kStickyFlags = 0x3f;
  static constexpr uint32_t kDefault = 0x1f80;
  uint32_t saved_;
#endif
};

}  // namespace reprise::device
