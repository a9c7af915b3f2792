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
#elif defined(__aarch64__)
  FloatingPointScope() noexcept : saved_(__builtin_aarch64_get_fpcr64()) {
    if (saved_ != kDefault) __builtin_aarch64_set_fpcr64(kDefault);
  }
  ~FloatingPointScope() {
    if (saved_ != kDefault) __builtin_aarch64_set_fpcr64(saved_);
  }
#else
  FloatingPointScope() noexcept {}  // not defaulted, so that no compiler calls an object unused
#endif
  FloatingPointScope(const FloatingPointScope&) = delete;
  FloatingPointScope& operator=(const FloatingPointScope&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint32_t kStickyFlags = 0x3f;
  static constexpr uint32_t kDefault = 0x1f80;
  uint32_t saved_;
#elif defined(__aarch64__)
  static constexpr uint64_t kDefault = 0;  // FPCR: round to nearest, no flush to zero, no traps
  uint64_t saved_;
#endif
};

}  // namespace reprise::device
