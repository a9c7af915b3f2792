#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// Keys go to the cache as they are rotated, and are nowhere else:
///
///     %q1, %k1 = rope(%q, %k, positions, table)
///     ...                                            ->  ...
///     %c1, %d1 = kv_write(%k1, %v, %c, %d, slots)        %q1, %c1, %d1 = rope_kv_write(%q, %k, %v,
///                                                            positions, table, %c, %d, slots,
///                                                            none, none)
///
/// The fused op stands where the write was: whatever uses %q1 must come after it.
size_t fuse_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

/// The same where a norm of one epsilon over the heads of q and another over those of k come first,
/// and only the rotation uses them.
size_t fuse_qk_norm_rope_kv_write(program::Program& program, const NodePredicate& has_kernel = {});

}  // namespace reprise::compile
