#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Sequence parallelism: between two matrix products, each rank keeps only its own rows of the sum
/// over ranks, and computes the norm of these rows only.
///
///     %a = all_reduce(x) {ranks}                 %b = reduce_scatter(x) {ranks}
///     %n = rms_norm(%a, w) {e}               ->  %m = rms_norm(%b, w) {e}
///                                                %n = all_gather(%m) {ranks}
///
/// The next norms get a residual that is scattered already:
///
///     %a = all_reduce(x) {ranks}                 %b = reduce_scatter(x) {ranks}
///     %n, %s = fused_add_rms_norm(%a,        ->  %m, %t = fused_add_rms_norm(%b,
///         residual, w) {e}                           scattered residual, w) {e}
///                                                %n = all_gather(%m) {ranks}
///
/// A residual that every rank has whole (the embedding) is cut to the rank's own rows, if `rank`,
/// the number of the rank for which the program is compiled, is given. Without it such a norm
/// stays.
///
/// Other uses of a sum get the gathered sum. The results have the same bits only if all ranks have
/// the same norm weights, and if a rank sums its own rows in the same order as it would sum all
/// rows. The number of rows must be a multiple of the number of ranks, see scale_tokens(). The pass
/// must see the whole program, because in a piece it cannot know whether a residual from another
/// piece is scattered.
size_t parallelize_sequence(program::Program& program, std::optional<int64_t> rank);

}  // namespace reprise::compile
