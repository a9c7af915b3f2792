#include "reprise/compile/codegen/llvm/row_ops.h"

#include <array>

#include "reprise/base/assert.h"
#include "reprise/compile/codegen/llvm/row_emitter.h"

namespace reprise::compile {
namespace {

using llvm::Value;

Tile emit_copy(RowEmitter& emitter, const RowValue& value, size_t, const Span& span) {
  return emitter.evaluate(value.sources[0], span);
}

Tile emit_add(RowEmitter& emitter, const RowValue& value, size_t, const Span& span) {
  return emitter.vectors().map([&](Value* a, Value* b) { return emitter.ir().CreateFAdd(a, b); },
                               emitter.evaluate(value.sources[0], span),
                               emitter.evaluate(value.sources[1], span));
}

Tile emit_rms_norm(RowEmitter& emitter, const RowValue& value, size_t id, const Span& span) {
  Value* scale = emitter.scale_of(id);
  return emitter.vectors().map(
      [&](Value* x, Value* weight) {
        return emitter.ir().CreateFMul(emitter.ir().CreateFMul(x, scale), weight);
      },
      emitter.evaluate(value.sources[0], span),
      emitter.evaluate(value.sources[1], span));
}

Tile emit_silu_and_mul(RowEmitter& emitter, const RowValue& value, size_t, const Span& span) {
  return emitter.vectors().map(
      [&](Value* gate, Value* up) {
        return emitter.ir().CreateFMul(emitter.vectors().silu(gate), up);
      },
      emitter.evaluate(value.sources[0], span),
      emitter.evaluate(value.sources[0], span.shifted(value.width)));
}

struct RowOp {
  RowValueKind kind;
  Tile (*emit)(RowEmitter&, const RowValue&, size_t, const Span&);
};

constexpr std::array kRowOps = {
    RowOp{RowValueKind::copy, emit_copy},
    RowOp{RowValueKind::add, emit_add},
    RowOp{RowValueKind::rms_norm, emit_rms_norm},
    RowOp{RowValueKind::silu_and_mul, emit_silu_and_mul},
};

}  // namespace

Tile emit_row_op(RowEmitter& emitter, const RowValue& value, size_t id, const Span& span) {
  for (const RowOp& op : kRowOps) {
    if (op.kind != value.kind) continue;
    const Tile tile = op.emit(emitter, value, id, span);
    return value.kind == RowValueKind::copy ? tile : emitter.vectors().round(tile, value.dtype);
  }
  REPRISE_ASSERT(false, "value {} belongs to an op for which no code can be generated", id);
}

std::pair<Tile, Tile> emit_rope(RowEmitter& emitter, const RowValue& value, const Span& span) {
  const int64_t half = value.width / 2;
  llvm::IRBuilder<>& ir = emitter.ir();
  const Tile x1 = emitter.evaluate(value.sources[0], span);
  const Tile x2 = emitter.evaluate(value.sources[0], span.shifted(half));
  const Tile cosine = emitter.evaluate(value.sources[1], span);
  const Tile sine = emitter.evaluate(value.sources[1], span.shifted(half));
  const auto rotate = [&](bool negative, const Tile& a, const Tile& b) {
    const Tile turned = emitter.vectors().map(
        [&](Value* xa, Value* xb, Value* c, Value* s) {
          Value* along = ir.CreateFMul(xa, c);
          Value* across = ir.CreateFMul(xb, s);
          return negative ? ir.CreateFSub(along, across) : ir.CreateFAdd(along, across);
        },
        a,
        b,
        cosine,
        sine);
    return emitter.vectors().round(turned, value.dtype);
  };
  return {rotate(true, x1, x2), rotate(false, x2, x1)};
}

}  // namespace reprise::compile
