#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Computes the norm only for the gathered rows. The norm then also follows the gather, so
/// group_rows can join the two:
///
///     %n = rms_norm(%x, w) {e}            %r = gather_rows(%x, indices)
///     ...                             ->  ...
///     %g = gather_rows(%n, indices)       %g = rms_norm(%r, w) {e}
///
/// The same applies to the norm of a fused_add_rms_norm, if no node uses its sum: both operands are
/// gathered. No other node may use the norm. An index out of range gives a row of zeros, and the
/// norm of such a row is also zero (of either sign).
size_t sink_norm_below_gather(program::Program& program);

}  // namespace reprise::compile
