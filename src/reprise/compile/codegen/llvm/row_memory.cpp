#include "reprise/compile/codegen/llvm/row_memory.h"

#include <llvm/IR/Module.h>

#include "reprise/base/assert.h"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::compile {

using kernels::RowGroupArguments;
using kernels::RowGroupOperand;
using llvm::Value;

RowMemory::RowMemory(llvm::IRBuilder<>& ir, const RowLoops& loops) : ir_(ir), loops_(loops) {}

void RowMemory::enter_function(Value* arguments) {
  llvm::Type* integer = ir_.getInt64Ty();
  num_rows_ = load_argument(arguments, offsetof(RowGroupArguments, rows), integer);
  rows_per_block_ = load_argument(arguments, offsetof(RowGroupArguments, rows_per_block), integer);
  for (size_t i = 0; i < loops_.num_inputs + loops_.num_outputs; ++i) {
    const size_t offset = offsetof(RowGroupArguments, operands) + i * sizeof(RowGroupOperand);
    const auto field = [&](size_t place, llvm::Type* type) {
      return load_argument(arguments, offset + place, type);
    };
    operands_.push_back({.data = field(offsetof(RowGroupOperand, data), ir_.getPtrTy()),
                         .rows = field(offsetof(RowGroupOperand, rows), integer),
                         .row_stride = field(offsetof(RowGroupOperand, row_stride), integer),
                         .inner_stride = field(offsetof(RowGroupOperand, inner_stride), integer)});
  }
  if (loops_.scratch_bytes > 0) {
    auto* scratch =
        ir_.CreateAlloca(ir_.getInt8Ty(), ir_.getInt64(loops_.scratch_bytes), "scratch");
    scratch->setAlignment(llvm::Align(64));
    scratch_ = scratch;
  }
}

void RowMemory::enter_row(Value* row) {
  rows_.assign(loops_.values.size(), nullptr);
  for (size_t i = 0; i < loops_.values.size(); ++i) {
    if (is_memory(loops_.values[i].kind)) rows_[i] = row_of(loops_.values[i], row);
  }
  output_rows_.assign(loops_.num_outputs, nullptr);
  for (const RowNest& nest : loops_.nests) {
    for (const RowLoop& loop : nest.loops) {
      for (const RowAction& action : loop.actions) {
        if (action.kind != RowAction::Kind::store) continue;
        const Operand& operand = operands_[loops_.num_inputs + action.output];
        output_rows_[action.output] = ir_.CreateGEP(element_of(loops_.values[action.value]),
                                                    operand.data,
                                                    ir_.CreateMul(row, operand.row_stride));
      }
    }
  }
  heads_.clear();
}

void RowMemory::enter_head(Value* head) {
  head_ = head;
  heads_.clear();
}

Value* RowMemory::source(const RowRef& ref, const Span& span) {
  const RowValue& value = loops_.values[ref.value];
  Value* base = rows_[ref.value];
  if (value.scratch) {
    base = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), scratch_, *value.scratch);
  } else if (value.kept_in_output) {
    base = output_rows_[*value.kept_in_output];
  }
  REPRISE_ASSERT(base != nullptr, "value {} is nowhere", ref.value);
  return element(head_of(base, ref), value, span.shifted(ref.begin));
}

Value* RowMemory::scratch(size_t value, const Span& span) {
  const RowValue& kept = loops_.values[value];
  return source({.value = value, .heads = kept.heads, .head_stride = kept.width}, span);
}

Value* RowMemory::output(size_t output, size_t value, const Span& span) {
  const RowValue& stored = loops_.values[value];
  const RowRef all = {.value = value, .heads = stored.heads, .head_stride = stored.width};
  return element(head_of(output_rows_[output], all), stored, span);
}

Value* RowMemory::load_argument(Value* arguments, size_t offset, llvm::Type* type) {
  return ir_.CreateLoad(type, ir_.CreateConstInBoundsGEP1_64(ir_.getInt8Ty(), arguments, offset));
}

llvm::Type* RowMemory::element_of(const RowValue& value) const {
  return ir_.getIntNTy(static_cast<unsigned>(8 * dtype_bytes(value.dtype)));
}

Value* RowMemory::row_of(const RowValue& value, Value* row) {
  const Operand& operand = operands_[value.operand];
  if (value.kind == RowValueKind::weight) return operand.data;
  if (value.kind != RowValueKind::rows) return table_row(value, row);
  return ir_.CreateGEP(element_of(value), operand.data, ir_.CreateMul(row, operand.row_stride));
}

// Handles an index outside of the table in the same way as the precompiled kernels.
Value* RowMemory::table_row(const RowValue& value, Value* row) {
  const Operand& table = operands_[value.operand];
  const Operand& indices = operands_[value.indices];
  llvm::Type* integer = ir_.getInt32Ty();
  Value* place = ir_.CreateGEP(integer, indices.data, ir_.CreateMul(row, indices.row_stride));
  Value* index = ir_.CreateSExt(ir_.CreateLoad(integer, place), ir_.getInt64Ty());
  if (value.kind == RowValueKind::clamped) {
    Value* last = ir_.CreateSub(table.rows, ir_.getInt64(1));
    index = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, last);
    index = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, index, ir_.getInt64(0));
  }
  Value* found =
      ir_.CreateGEP(element_of(value), table.data, ir_.CreateMul(index, table.row_stride));
  if (value.kind == RowValueKind::clamped) return found;
  const int64_t bytes = value.width * static_cast<int64_t>(dtype_bytes(value.dtype));
  return ir_.CreateSelect(ir_.CreateICmpULT(index, table.rows), found, zeros(bytes));
}

// A row of zeros that is read in place of a missing row. The global variable is not declared
// constant, so that it takes no space in the object. The loader makes the memory read-only.
Value* RowMemory::zeros(int64_t bytes) {
  llvm::Module& module = *ir_.GetInsertBlock()->getModule();
  const std::string name = "zeros." + std::to_string(bytes);
  if (llvm::GlobalVariable* existing = module.getNamedGlobal(name)) return existing;
  auto* type = llvm::ArrayType::get(ir_.getInt8Ty(), static_cast<uint64_t>(bytes));
  auto* global = new llvm::GlobalVariable(module,  // the module owns it
                                          type,
                                          /*isConstant=*/false,
                                          llvm::GlobalValue::InternalLinkage,
                                          llvm::ConstantAggregateZero::get(type),
                                          name);
  global->setAlignment(llvm::Align(64));
  return global;
}

Value* RowMemory::head_of(Value* base, const RowRef& ref) {
  const bool follows_heads = ref.heads > 1 && head_ != nullptr;
  if (!follows_heads && ref.head_begin == 0) return base;
  Value*& found = heads_[{base, ref.head_begin, follows_heads}];
  if (found != nullptr) return found;
  const RowValue& value = loops_.values[ref.value];
  Value* stride = ref.head_stride
                      ? static_cast<Value*>(ir_.getInt64(static_cast<uint64_t>(*ref.head_stride)))
                      : operands_[value.operand].inner_stride;
  Value* head = ir_.getInt64(static_cast<uint64_t>(ref.head_begin));
  if (follows_heads) head = ir_.CreateAdd(head_, head);
  found = ir_.CreateGEP(element_of(value), base, ir_.CreateMul(head, stride));
  return found;
}

Value* RowMemory::element(Value* base, const RowValue& value, const Span& span) {
  llvm::Type* type = element_of(value);
  if (span.index != nullptr) base = ir_.CreateInBoundsGEP(type, base, span.index);
  if (span.offset == 0) return base;
  return ir_.CreateConstInBoundsGEP1_64(type, base, static_cast<uint64_t>(span.offset));
}

}  // namespace reprise::compile
