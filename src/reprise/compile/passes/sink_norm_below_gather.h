#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Computes a norm only for the rows that are gathered afterwards. group_rows can then join the
/// gather and the norm:
///
///     %n = rms_norm(%x, w) {e}            %r = gather_rows(%x, indices)
///     ...                             ->  ...
///     %g = gather_rows(%n, indices)       %g = rms_norm(%r, w) {e}
///
/// The same applies to the norm of a fused_add_rms_norm if no node uses the sum: then both operands
/// are gathered. No other node may use the norm. An index out of range still gives a row of zeros,
/// because the norm of a row of zeros is zero (of either sign).
size_t sink_norm_below_gather(program::Program& program);

}  // namespace reprise::compile
