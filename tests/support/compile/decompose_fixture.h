#pragma once

#include <cstdint>
#include <vector>

#include "reprise/program/program.h"

/// For tests of passes only: explains fused ops by the ops that they combine.
namespace reprise::compile {

/// Returns the same program with every fused op replaced by the ops that it combines, and every
/// group by its nodes. The kernels of fused ops promise the same bits.
[[nodiscard]] program::Program decomposed(const program::Program& program);

/// Fingerprints of the outputs of a run, then of the states. Two programs have equal fingerprints
/// if they compute the same by rules that hold for every op. Unlike program::fingerprints(), this
/// function knows which ops a fused op combines, that a view of a view is a view, that a + b equals
/// b + a, that quantising with a given scale works element by element, and that norms and sums work
/// row by row.
[[nodiscard]] std::vector<uint64_t> meaning_of(const program::Program& program,
                                               const program::SymbolValues& values);

}  // namespace reprise::compile
