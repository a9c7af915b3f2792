#include "reprise/compile/codegen/llvm/row_emitter.h"

#include <algorithm>
#include <optional>

#include "reprise/base/assert.h"
#include "reprise/compile/codegen/llvm/row_ops.h"

namespace reprise::compile {
namespace {

using llvm::Value;

bool has_bfloat16(const RowLoops& loops) {
  return std::ranges::any_of(loops.values,
                             [](const RowValue& value) { return value.dtype == DType::bf16; });
}

}  // namespace

RowEmitter::RowEmitter(llvm::Module& module, const RowLoops& loops, kernels::Isa isa)
    : loops_(loops),
      module_(module),
      ir_(module.getContext()),
      vectors_(ir_, isa, has_bfloat16(loops)),
      memory_(ir_, loops),
      pair_layout_(has_bfloat16(loops) ? Layout::even_odd : Layout::natural) {}

llvm::Function* RowEmitter::emit(const std::string& symbol) {
  // The signature is void (const void* args, BlockRange blocks). The two uint32_t of the BlockRange
  // are passed in one 64-bit register.
  auto* type = llvm::FunctionType::get(ir_.getVoidTy(), {ir_.getPtrTy(), ir_.getInt64Ty()}, false);
  auto* function =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, symbol, module_);
  function->setDoesNotThrow();
  ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function));
  memory_.enter_function(function->getArg(0));
  Value* blocks = function->getArg(1);
  const auto first_row = [&](Value* block) {
    return ir_.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin, ir_.CreateMul(block, memory_.rows_per_block()), memory_.num_rows());
  };
  Value* begin = first_row(ir_.CreateAnd(blocks, ir_.getInt64(0xffff'ffffU)));
  Value* end = first_row(ir_.CreateLShr(blocks, 32));
  emit_rows(begin, end);
  ir_.CreateRetVoid();
  return function;
}

void RowEmitter::emit_rows(Value* begin, Value* end) {
  llvm::Function* function = ir_.GetInsertBlock()->getParent();
  auto* some = llvm::BasicBlock::Create(module_.getContext(), "some_rows", function);
  auto* none = llvm::BasicBlock::Create(module_.getContext(), "no_rows", function);
  ir_.CreateCondBr(ir_.CreateICmpSLT(begin, end), some, none);
  ir_.SetInsertPoint(some);
  emit_counted_loop("row", begin, end, 1, [&](Value* row) { emit_row(row); });
  ir_.CreateBr(none);
  ir_.SetInsertPoint(none);
}

void RowEmitter::emit_row(Value* row) {
  memory_.enter_row(row);
  for (const RowNest& nest : loops_.nests) emit_nest(nest);
}

void RowEmitter::emit_nest(const RowNest& nest) {
  nest_ = &nest;
  tiles_.clear();
  memory_.enter_head(nullptr);
  const std::span<const RowLoop> loops = nest.loops;
  if (nest.heads == 1) return emit_head(loops);
  // A scale takes long to compute (a sum, a root and a division), and its head has little other
  // work to do meanwhile. So a first round computes the scales of all heads, and a second round
  // reads the heads again and stores the results.
  const size_t sums = num_leading_sum_loops(nest);
  if (sums > 0) {
    scale_memory_ = allocate_scales(nest);
    emit_heads(loops.first(sums), [this](Value* head) { keep_scales(head); });
    evaluate_shared_tables(nest);
    emit_heads(loops.subspan(sums), {}, [this](Value* head) { load_scales(head); });
  } else {
    evaluate_shared_tables(nest);
    emit_heads(loops);
  }
  tiles_.clear();
}

void RowEmitter::emit_heads(std::span<const RowLoop> loops,
                            const std::function<void(Value*)>& at_end,
                            const std::function<void(Value*)>& at_begin) {
  memory_.enter_head(nullptr);
  const auto shared = tiles_;
  emit_counted_loop("head",
                    ir_.getInt64(0),
                    ir_.getInt64(static_cast<uint64_t>(nest_->heads)),
                    1,
                    [&](Value* head) {
                      memory_.enter_head(head);
                      if (at_begin) at_begin(head);
                      emit_head(loops);
                      if (at_end) at_end(head);
                    });
  memory_.enter_head(nullptr);
  tiles_ = shared;
}

size_t RowEmitter::num_leading_sum_loops(const RowNest& nest) {
  if (!nest.is_unrolled) return 0;
  const auto only_sums = [](const RowLoop& loop) { return num_sums(loop) == loop.actions.size(); };
  const auto end = std::ranges::find_if_not(nest.loops, only_sums);
  return static_cast<size_t>(end - nest.loops.begin());
}

// Allocates memory for each scale of each head.
std::map<size_t, Value*> RowEmitter::allocate_scales(const RowNest& nest) {
  llvm::BasicBlock& entry = ir_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  std::map<size_t, Value*> places;
  for (const RowLoop& loop : nest.loops) {
    for (const RowAction& action : loop.actions) {
      if (action.kind != RowAction::Kind::sum_squares) continue;
      places[action.value] = at_entry.CreateAlloca(
          ir_.getFloatTy(), ir_.getInt64(static_cast<uint64_t>(nest.heads)), "scales");
    }
  }
  return places;
}

void RowEmitter::keep_scales(Value* head) {
  for (const auto& [norm, place] : scale_memory_) {
    const auto found = scales_.find(norm);
    if (found == scales_.end()) continue;
    ir_.CreateStore(ir_.CreateExtractElement(found->second, uint64_t{0}),
                    ir_.CreateGEP(ir_.getFloatTy(), place, head));
  }
}

void RowEmitter::load_scales(Value* head) {
  for (const auto& [norm, place] : scale_memory_) {
    Value* scale = ir_.CreateLoad(ir_.getFloatTy(), ir_.CreateGEP(ir_.getFloatTy(), place, head));
    scales_[norm] = ir_.CreateVectorSplat(static_cast<unsigned>(vectors_.lanes()), scale);
  }
}

// All heads of a row use the same angles, so they are loaded and converted only once.
void RowEmitter::evaluate_shared_tables(const RowNest& nest) {
  const int pair = 2 * vectors_.lanes();
  if (!nest.is_unrolled || pair_layout_ == Layout::natural) return;
  for (const RowLoop& loop : nest.loops) {
    loop_ = &loop;
    for (const size_t id : loop.evaluated) {
      const RowValue& value = loops_.values[id];
      if (value.kind != RowValueKind::rope) continue;
      for (int64_t offset = 0; offset + pair <= loop.width; offset += pair) {
        const Span span = {.offset = offset, .elements = pair, .layout = pair_layout_};
        (void)evaluate(value.sources[1], span);
        (void)evaluate(value.sources[1], span.shifted(loop.width));
      }
    }
  }
}

void RowEmitter::emit_head(std::span<const RowLoop> loops) {
  for (const RowLoop& loop : loops) {
    loop_ = &loop;
    emit_loop(loop);
    if (!nest_->is_unrolled) tiles_.clear();
  }
  flush_stores();
}

// ---- one loop, whose width is a constant

void RowEmitter::emit_loop(const RowLoop& loop) {
  const int64_t pair = 2 * vectors_.lanes();
  const int64_t in_pairs = loop.width / pair * pair;
  Value* zero = vectors_.broadcast(0);
  std::vector<Sums> sums(num_sums(loop), Sums{zero, zero});
  emit_pairs(loop, in_pairs, sums);
  if (in_pairs > 0) {
    for (Sums& sum : sums) sum = vectors_.to_natural(sum, pair_layout_);
  }
  emit_tail(loop, in_pairs, sums);
  finish_sums(loop, sums);
}

void RowEmitter::emit_pairs(const RowLoop& loop, int64_t width, std::vector<Sums>& sums) {
  const int pair = 2 * vectors_.lanes();
  if (!nest_->is_unrolled && width > pair) return emit_pair_loop(loop, width, sums);
  for (int64_t offset = 0; offset < width; offset += pair) {
    emit_span(loop, {.offset = offset, .elements = pair, .layout = pair_layout_}, sums);
  }
}

// Each iteration handles one pair of vectors. Unrolling made no code faster, but compilation
// slower.
void RowEmitter::emit_pair_loop(const RowLoop& loop, int64_t end, std::vector<Sums>& sums) {
  const int pair = 2 * vectors_.lanes();
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  std::vector<std::array<llvm::PHINode*, 2>> carried;
  const auto outside = tiles_;
  const auto turn = [&](Value* column) {
    for (Sums& sum : sums) {
      auto& phis = carried.emplace_back();
      for (size_t i = 0; i < 2; ++i) {
        phis[i] = ir_.CreatePHI(vectors_.float_vector(), 2);
        phis[i]->addIncoming(sum[i], before);
        sum[i] = phis[i];
      }
    }
    emit_span(loop, {.index = column, .elements = pair, .layout = pair_layout_}, sums);
    for (size_t k = 0; k < sums.size(); ++k) {
      for (size_t i = 0; i < 2; ++i) carried[k][i]->addIncoming(sums[k][i], ir_.GetInsertBlock());
    }
  };
  emit_counted_loop("column",
                    ir_.getInt64(0),
                    ir_.getInt64(static_cast<uint64_t>(end)),
                    static_cast<uint64_t>(pair),
                    turn);
  tiles_ = outside;
}

// The remaining vectors are all added to the first of the two sums, as in rms_norm.inl.
void RowEmitter::emit_tail(const RowLoop& loop, int64_t begin, std::vector<Sums>& sums) {
  for (int64_t offset = begin; offset < loop.width; offset += vectors_.lanes()) {
    const auto elements =
        static_cast<int>(std::min<int64_t>(vectors_.lanes(), loop.width - offset));
    emit_span(loop, {.offset = offset, .elements = elements}, sums);
  }
}

// Reads all inputs of the span before it writes, because an output may be stored over an input.
void RowEmitter::emit_span(const RowLoop& loop, const Span& span, std::vector<Sums>& sums) {
  size_t next_sum = 0;
  for (const RowAction& action : loop.actions) {
    if (action.kind != RowAction::Kind::sum_squares) {
      emit_store(action, span);
      continue;
    }
    const Tile x = evaluate(loops_.values[action.value].sources[0], span);
    Sums& sum = sums[next_sum++];
    for (size_t i = 0; i < static_cast<size_t>(x.count); ++i) {
      sum[i] = vectors_.fma(x.vectors[i], x.vectors[i], sum[i]);
    }
  }
  if (!nest_->is_unrolled) flush_stores();
}

void RowEmitter::emit_store(const RowAction& action, const Span& span) {
  const RowValue& value = loops_.values[action.value];
  const auto add = [&](const Tile& tile, const Span& place) {
    Value* pointer = action.kind == RowAction::Kind::keep
                         ? memory_.scratch(action.value, place)
                         : memory_.output(action.output, action.value, place);
    stores_.push_back({pointer, value.dtype, tile, place});
  };
  if (value.kind == RowValueKind::rope) {
    const auto [first, second] = emit_rope(*this, value, span);
    add(first, span);
    add(second, span.shifted(value.width / 2));
  } else {
    add(evaluate({.value = action.value, .heads = value.heads, .head_stride = value.width}, span),
        span);
  }
}

void RowEmitter::finish_sums(const RowLoop& loop, const std::vector<Sums>& sums) {
  size_t next_sum = 0;
  for (const RowAction& action : loop.actions) {
    if (action.kind != RowAction::Kind::sum_squares) continue;
    const RowValue& norm = loops_.values[action.value];
    const auto number = [&](float value) {
      return llvm::ConstantFP::get(ir_.getFloatTy(), static_cast<double>(value));
    };
    const Sums& sum = sums[next_sum++];
    Value* total = vectors_.sum(ir_.CreateFAdd(sum[0], sum[1]));
    Value* mean = ir_.CreateFDiv(total, number(static_cast<float>(norm.width)));
    Value* root =
        ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, ir_.CreateFAdd(mean, number(norm.epsilon)));
    scales_[action.value] = ir_.CreateVectorSplat(static_cast<unsigned>(vectors_.lanes()),
                                                  ir_.CreateFDiv(number(1.0F), root));
  }
}

void RowEmitter::flush_stores() {
  for (const PendingStore& store : stores_) {
    vectors_.store(store.pointer, store.dtype, store.tile, store.span);
  }
  stores_.clear();
}

// ---- values

Tile RowEmitter::evaluate(const RowRef& ref, const Span& span) {
  const RowValue& value = loops_.values[ref.value];
  const bool is_loaded = is_memory(value.kind) || !is_evaluated_here(ref.value);
  const Span place = span.shifted(ref.begin);
  const TileKey key = {ref.value,
                       ref.head_begin,
                       ref.heads > 1,
                       place.index,
                       place.offset,
                       place.elements,
                       place.layout};
  if (const auto found = tiles_.find(key); found != tiles_.end()) return found->second;
  const Tile tile = is_loaded ? vectors_.load(memory_.source(ref, span), value.dtype, span)
                              : emit_row_op(*this, value, ref.value, place);
  tiles_[key] = tile;
  return tile;
}

bool RowEmitter::is_evaluated_here(size_t value) const {
  return std::ranges::binary_search(loop_->evaluated, value);
}

size_t RowEmitter::num_sums(const RowLoop& loop) {
  return static_cast<size_t>(
      std::ranges::count(loop.actions, RowAction::Kind::sum_squares, &RowAction::kind));
}

template <typename Body>
void RowEmitter::emit_counted_loop(
    const char* name, Value* begin, Value* end, uint64_t step, Body body) {
  llvm::Function* function = ir_.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  auto* turn = llvm::BasicBlock::Create(module_.getContext(), name, function);
  auto* after =
      llvm::BasicBlock::Create(module_.getContext(), std::string(name) + "_end", function);
  ir_.CreateBr(turn);
  ir_.SetInsertPoint(turn);
  llvm::PHINode* number = ir_.CreatePHI(ir_.getInt64Ty(), 2, name);
  number->addIncoming(begin, before);
  body(number);
  Value* next = ir_.CreateAdd(number, ir_.getInt64(step));
  number->addIncoming(next, ir_.GetInsertBlock());
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), turn, after);
  ir_.SetInsertPoint(after);
}

}  // namespace reprise::compile
