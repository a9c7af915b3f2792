#pragma once

#include <cstdint>
#include <vector>

#include "reprise/program/program.h"

/// For tests of passes only: the meaning of fused ops.
namespace reprise::compile {

/// The same program with every fused op replaced by the ops that it combines, and every group by
/// its nodes. The kernels of fused ops promise the same bits.
[[nodiscard]] program::Program decomposed(const program::Program& program);

/// What a run leaves behind, as fingerprints of outputs, then of states: equal for programs that
/// compute the same for reasons that hold for every op. Unlike program::fingerprints() it knows
/// what fused ops stand for, that views of views are views, that a + b is b + a, that quantising to
/// a given scale goes element by element, and that norms and sums go row by row.
[[nodiscard]] std::vector<uint64_t> meaning_of(const program::Program& program,
                                               const program::SymbolValues& values);

}  // namespace reprise::compile
