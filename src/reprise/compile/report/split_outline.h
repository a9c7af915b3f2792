#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/program/split.h"

/// Describes a split program in few words, for people.
namespace reprise::compile {

/// The pieces from `begin` to `begin + period`, excluding the last, and how often they repeat.
struct PieceRun {
  size_t begin = 0;
  size_t period = 1;
  size_t count = 1;

  friend bool operator==(const PieceRun&, const PieceRun&) = default;
};

/// Folds the repetitions in a sequence: equal layers become one run. The runs cover the sequence
/// without gaps.
[[nodiscard]] std::vector<PieceRun> fold_runs(const std::vector<size_t>& sequence);

/// The numbers of the programs that the pieces run, in order: "0, 5 x (1 2), 1, 3".
[[nodiscard]] std::string describe_order(const program::SplitProgram& split);

/// The ops of a program as print() writes them, groups first, without inputs, parameters and
/// states.
[[nodiscard]] std::string print_ops(const program::Program& program);

/// The ops that one launch computes, in order, such as linear, rope, kv_write. For a row group, the
/// ops of its body.
[[nodiscard]] std::vector<std::string_view> parts_of(const program::Program& program,
                                                     const program::Node& node);

}  // namespace reprise::compile
