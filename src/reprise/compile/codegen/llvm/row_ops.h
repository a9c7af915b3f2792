#pragma once

#include <cstddef>
#include <utility>

#include "reprise/compile/codegen/llvm/vector_builder.h"
#include "reprise/compile/codegen/row_loops.h"

namespace reprise::compile {

class RowEmitter;

/// Computes a span of the value number `id` of the loops' values, rounded to its type.
/// \pre the value is computed by an op other than rope
[[nodiscard]] Tile emit_row_op(RowEmitter& emitter,
                               const RowValue& value,
                               size_t id,
                               const Span& span);

/// Computes the same span in both halves of a head. \pre the value is computed by rope
[[nodiscard]] std::pair<Tile, Tile> emit_rope(RowEmitter& emitter,
                                              const RowValue& value,
                                              const Span& span);

}  // namespace reprise::compile
