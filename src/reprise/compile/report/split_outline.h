#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/program/split.h"

/// A split program in few words, for people.
namespace reprise::compile {

/// Pieces `begin` to `begin + period`, `count` times in all.
struct PieceRun {
  size_t begin = 0;
  size_t period = 1;
  size_t count = 1;

  friend bool operator==(const PieceRun&, const PieceRun&) = default;
};

/// A sequence with its repetitions folded; equal layers become one run. Runs cover it without gaps.
[[nodiscard]] std::vector<PieceRun> fold_runs(const std::vector<size_t>& sequence);

/// Programs of the pieces in order: "0, 5 x (1 2), 1, 3".
[[nodiscard]] std::string describe_order(const program::SplitProgram& split);

/// The ops of a program as print() writes them, groups first, without inputs, parameters, states.
[[nodiscard]] std::string print_ops(const program::Program& program);

/// The ops of one launch in order: linear, rope, kv_write. For a group, the ops of its body.
[[nodiscard]] std::vector<std::string_view> parts_of(const program::Program& program,
                                                     const program::Node& node);

}  // namespace reprise::compile
