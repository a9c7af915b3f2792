#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Sequence parallelism: between products each rank has its own rows of the sum over ranks, and
/// norms those alone.
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
/// What else uses a sum gets it gathered. Exact if all ranks have the same weights of norms, and if
/// a rank sums in the same order whether it sums all rows or its own. Only where the ranks divide
/// the rows: see scale_tokens(). Needs the whole program: a residual that comes from another piece
/// is not known to be scattered.
size_t parallelize_sequence(program::Program& program);

}  // namespace reprise::compile
