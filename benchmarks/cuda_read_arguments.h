#pragma once

#include <cstdint>

namespace reprise::benchmark {

struct ReadArguments {
  const void* memory = nullptr;
  uint64_t num_words = 0;   // a word has 16 bytes
  uint32_t impossible = 0;  // a value that the words never give
  uint32_t* out = nullptr;
};

}  // namespace reprise::benchmark
