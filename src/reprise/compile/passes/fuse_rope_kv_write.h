#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Fuses the rotation with the cache write, so that rotated keys are stored only in the cache:
///
///     %q1, %k1 = rope(%q, %k, positions, table)
///     ...                                            ->  ...
///     %c1, %d1 = kv_write(%k1, %v, %c, %d, slots)        %q1, %c1, %d1 = rope_kv_write(%q, %k, %v,
///                                                            positions, table, %c, %d, slots,
///                                                            none, none)
///
/// The fused op stands where the write stood, so no node before the write may use %q1.
size_t fuse_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

/// The same, with the norms over the heads of q and of k before the rotation. Both norms must have
/// the same epsilon, and no other op may use them.
size_t fuse_qk_norm_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
