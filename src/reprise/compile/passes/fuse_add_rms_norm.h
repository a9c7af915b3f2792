#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// The norm of a sum is computed with the sum, in one pass over the rows:
///
///     %s = add(residual, x)               %n, %s = fused_add_rms_norm(x, residual, w) {e}
///     ...                             ->  ...
///     %n = rms_norm(%s, w) {e}
///
/// Whatever else uses the sum goes on doing so. Of several norms of one sum the first is fused. A
/// weight that is computed only after the sum prevents it.
size_t fuse_add_rms_norm(program::Program& program);

}  // namespace reprise::compile
