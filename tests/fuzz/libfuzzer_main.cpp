// The entry of libFuzzer for one target: REPRISE_FUZZ_TARGET is its name in targets.h.
// REPRISE_FUZZ_MICROSECONDS_PER_BYTE bounds what an input may cost.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tests/fuzz/targets.h"

namespace {

// Time that costs nothing: for tables that are made once, the first use of a page, and similar.
constexpr double kFreeSeconds = 0.1;
constexpr double kSecondsPerByte = REPRISE_FUZZ_MICROSECONDS_PER_BYTE * 1e-6;

/// The processor time of this thread, which other programs do not change.
double used_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const double begin = used_seconds();
  reprise::fuzz::REPRISE_FUZZ_TARGET({reinterpret_cast<const char*>(bytes), size});
  const double seconds = used_seconds() - begin;
  if (seconds > kFreeSeconds + kSecondsPerByte * static_cast<double>(size)) {
    std::fprintf(stderr, "an input of %zu bytes took %.3f s\n", size, seconds);
    std::abort();
  }
  return 0;
}
