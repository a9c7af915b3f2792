#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Rotated keys are written to the cache and stored nowhere else:
///
///     %q1, %k1 = rope(%q, %k, positions, table)
///     ...                                            ->  ...
///     %c1, %d1 = kv_write(%k1, %v, %c, %d, slots)        %q1, %c1, %d1 = rope_kv_write(%q, %k, %v,
///                                                            positions, table, %c, %d, slots,
///                                                            none, none)
///
/// The fused op takes the place of the write, so every use of %q1 must come after it.
size_t fuse_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

/// The same when a norm over the heads of q and a norm over the heads of k, with the same epsilon,
/// come first and only the rotation uses them.
size_t fuse_qk_norm_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
