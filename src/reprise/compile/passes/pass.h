#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "reprise/program/program.h"
#include "reprise/program/token_range.h"

namespace reprise::compile {

/// One rewriting of programs; a value. Applying it twice changes nothing the second time, and what
/// the program computes stays the same, bit for bit.
struct Pass {
  std::string_view name;  // a verb phrase, the name of its function
  /// \pre the program is well formed \post so it is, and \returns how often the pattern was found
  std::function<size_t(program::Program&)> apply;
  program::TokenRange widest = {};  // the tokens that it is good for

  [[nodiscard]] bool is_applicable(const program::TokenRange& range) const noexcept {
    return widest.contains(range);
  }
};

/// Whether a node that a pass is about to make can be launched. Empty: all can.
using NodePredicate =
    std::function<bool(const program::Program& program, const program::Node& node)>;
/// Whether there would be code for the body of a group. Empty: for all.
using BodyPredicate = std::function<bool(const program::Program& body)>;

}  // namespace reprise::compile
