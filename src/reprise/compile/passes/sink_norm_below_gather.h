#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Only the rows that are wanted are normed, which also brings the norm where group_rows can join
/// it with the choice of rows:
///
///     %n = rms_norm(%x, w) {e}            %r = gather_rows(%x, indices)
///     ...                             ->  ...
///     %g = gather_rows(%n, indices)       %g = rms_norm(%r, w) {e}
///
/// Same for the norm that a fused_add_rms_norm makes, if nothing uses its sum: both operands are
/// gathered. Nothing else may use the norm. Rows of indices outside are zeros, so are their norms
/// (of either sign).
size_t sink_norm_below_gather(program::Program& program);

}  // namespace reprise::compile
