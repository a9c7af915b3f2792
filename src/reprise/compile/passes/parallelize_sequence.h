#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Sequence parallelism: between matrix products each rank has only its own rows of the sum over
/// ranks and computes the norm of these rows.
///
///     %a = all_reduce(x) {ranks}                 %b = reduce_scatter(x) {ranks}
///     %n = rms_norm(%a, w) {e}               ->  %m = rms_norm(%b, w) {e}
///                                                %n = all_gather(%m) {ranks}
///
/// and on from there, with residuals that are scattered already:
///
///     %a = all_reduce(x) {ranks}                 %b = reduce_scatter(x) {ranks}
///     %n, %s = fused_add_rms_norm(%a,        ->  %m, %t = fused_add_rms_norm(%b,
///         residual, w) {e}                           scattered residual, w) {e}
///                                                %n = all_gather(%m) {ranks}
///
/// Other uses of a sum get the gathered sum. The result is exact if all ranks have the same norm
/// weights, and if a rank sums in the same order for all rows and for its own rows. The number of
/// rows must be a multiple of the number of ranks: see scale_tokens(). The pass needs the whole
/// program: it cannot know that a residual from another piece is scattered.
size_t parallelize_sequence(program::Program& program);

}  // namespace reprise::compile
