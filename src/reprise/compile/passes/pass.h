#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Numbers of tokens, both ends included, that a program is compiled for.
struct CompileRange {
  int64_t begin = 1;
  int64_t end = std::numeric_limits<int64_t>::max();

  [[nodiscard]] bool contains(const CompileRange& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  friend bool operator==(const CompileRange&, const CompileRange&) = default;
};

/// One rewriting of programs; a value. Applying it twice changes nothing the second time, and what
/// the program computes stays the same, bit for bit.
struct Pass {
  std::string_view name;  // a verb phrase, the name of its function
  /// \pre the program is well formed \post so it is, and \returns how often the pattern was found
  std::function<size_t(program::Program&)> apply;
  CompileRange widest = {};  // the tokens that it is good for

  [[nodiscard]] bool is_applicable(const CompileRange& range) const noexcept {
    return widest.contains(range);
  }
};

/// Whether a node that a pass is about to make can be launched. Empty: all can.
using NodePredicate =
    std::function<bool(const program::Program& program, const program::Node& node)>;
/// Whether there would be code for the body of a group. Empty: for all.
using BodyPredicate = std::function<bool(const program::Program& body)>;

}  // namespace reprise::compile
