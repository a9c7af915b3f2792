#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "reprise/program/program.h"
#include "reprise/program/token_range.h"

namespace reprise::compile {

/// One rewriting of programs; a value. Applying it a second time changes nothing, and the results
/// of the program stay the same, bit for bit.
struct Pass {
  std::string_view name;  // a verb phrase, the name of its function
  /// Rewrites the program and returns the number of matches. \pre the program is well formed \post
  /// the program is well formed
  std::function<size_t(program::Program&)> apply;
  program::TokenRange widest = {};  // the batch sizes for which the pass is valid

  [[nodiscard]] bool is_applicable(const program::TokenRange& range) const noexcept {
    return widest.contains(range);
  }
};

/// Whether a node that a pass is about to make can be launched. Empty: every node can.
using NodePredicate =
    std::function<bool(const program::Program& program, const program::Node& node)>;
/// Whether code can be generated for the body of a group. Empty: for every body.
using BodyPredicate = std::function<bool(const program::Program& body)>;

}  // namespace reprise::compile
