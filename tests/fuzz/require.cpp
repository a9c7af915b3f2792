#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void require(bool is_kept, std::string_view promise) {
  if (is_kept) return;
  std::fprintf(stderr,
               "a parser broke its promise: %.*s\n",
               static_cast<int>(promise.size()),
               promise.data());
  std::abort();
}

}  // namespace reprise::fuzz
