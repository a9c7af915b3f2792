#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Computes a sum and its norm in one pass over the rows:
///
///     %s = add(residual, x)               %n, %s = fused_add_rms_norm(x, residual, w) {e}
///     ...                             ->  ...
///     %n = rms_norm(%s, w) {e}
///
/// Other uses of the sum stay. When a sum has several norms, the first one is fused. A norm weight
/// that is computed after the sum prevents the fusion.
size_t fuse_add_rms_norm(program::Program& program);

}  // namespace reprise::compile
