#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "reprise/program/program.h"
#include "reprise/program/token_range.h"

namespace reprise::compile {

/// One rewriting of programs. It does not change any bit of a program's results, and running it a
/// second time changes nothing.
struct Pass {
  std::string_view name;  // the name of the pass's function, such as fuse_linear_add
  /// Rewrites the program and returns the number of matches.
  /// \pre the program is well formed
  /// \post the program is well formed
  std::function<size_t(program::Program&)> apply;
  program::TokenRange widest = {};  // the range of batch sizes for which the pass is valid

  [[nodiscard]] bool is_applicable(const program::TokenRange& range) const noexcept {
    return widest.contains(range);
  }
};

/// Whether the kernels can launch a node that a pass is about to create. Empty: every node can be
/// launched.
using NodePredicate =
    std::function<bool(const program::Program& program, const program::Node& node)>;
/// Whether code can be generated for the body of a row group. Empty: for every body.
using BodyPredicate = std::function<bool(const program::Program& body)>;

}  // namespace reprise::compile
