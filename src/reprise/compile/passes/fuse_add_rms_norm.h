#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses a sum and its norm into one op, which reads each row only once:
///
///     %s = add(residual, x)               %n, %s = fused_add_rms_norm(x, residual, w) {e}
///     ...                             ->  ...
///     %n = rms_norm(%s, w) {e}
///
/// Other uses of the sum read the second result. If several norms use one sum, the first norm is
/// fused. If the norm's weight is computed after the sum, nothing is fused.
size_t fuse_add_rms_norm(program::Program& program);

}  // namespace reprise::compile
