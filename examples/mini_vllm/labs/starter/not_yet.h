#pragma once

#include <stdexcept>
#include <string>

namespace course {

/// Stands where your code goes.
[[noreturn]] inline void not_yet(const std::string& what) {
  throw std::logic_error("not written yet: " + what);
}

}  // namespace course
