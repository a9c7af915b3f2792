#include "reprise/base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace reprise::internal {

void assert_failed(const char* condition,
                   const char* file,
                   int line,
                   std::string_view message) noexcept {
  std::fprintf(stderr,
               "%s:%d: assertion failed: %s: %.*s\n",
               file,
               line,
               condition,
               static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace reprise::internal
