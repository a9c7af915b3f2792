#pragma once

#include <cstdint>

namespace reprise::benchmark {

struct ReadArguments {
  const void* memory = nullptr;
  uint64_t num_words = 0;   // of 16 bytes
  uint32_t impossible = 0;  // what the bits do not come to
  uint32_t* out = nullptr;
};

}  // namespace reprise::benchmark
