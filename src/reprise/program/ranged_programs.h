#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/program/compiled_program.h"
#include "reprise/program/token_range.h"

namespace reprise::program {

/// The program that runs batches whose number of tokens is in one range.
struct ProgramRange {
  TokenRange tokens;
  size_t program = 0;  // index into RangedPrograms::programs
};

/// The program of the first range that contains `num_tokens`. If no range contains it, the program
/// of the last range.
/// \pre `ranges` is not empty
[[nodiscard]] inline size_t program_for(const std::vector<ProgramRange>& ranges,
                                        int64_t num_tokens) noexcept {
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const ProgramRange& range) {
    return range.tokens.contains(num_tokens);
  });
  return (found == ranges.end() ? ranges.back() : *found).program;
}

/// A model's forward, compiled one or several times for batches of different sizes.
struct RangedPrograms {
  std::vector<CompiledProgram> programs;
  // Ranges of a single size come first; then ranges that contain all other sizes.
  std::vector<ProgramRange> ranges;
};

}  // namespace reprise::program
