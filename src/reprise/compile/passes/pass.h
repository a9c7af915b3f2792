#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/program/program.h"

namespace reprise::compile {

/// One rewriting of programs; a value. Applying it twice changes nothing the second time, and what
/// the program computes stays the same, bit for bit.
struct Pass {
  std::string_view name;  // a verb phrase, the name of its function
  /// \pre the program is well formed \post so it is, and \returns how often the pattern was found
  size_t (*apply)(program::Program&) = nullptr;
};

}  // namespace reprise::compile
