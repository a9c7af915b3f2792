#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/compile/codegen/llvm/vector_builder.h"
#include "reprise/compile/codegen/row_loops.h"

namespace reprise::compile {

/// The addresses that a generated function uses: operands from its arguments, rows of tables, and
/// the scratch. The emitter calls enter_function(), enter_row() and enter_head() in that order, and
/// later addresses are those of the current row and head.
class RowMemory {
 public:
  RowMemory(llvm::IRBuilder<>& ir, const RowLoops& loops);

  /// Call at the start of the function. Reads the operands. `arguments` points to
  /// RowGroupArguments.
  void enter_function(llvm::Value* arguments);
  /// Call at the start of a row. Computes its address in each operand.
  void enter_row(llvm::Value* row);
  /// Call at the start of a head; `head` is nullptr if there is only one.
  void enter_head(llvm::Value* head);

  /// The number of rows of the launch. One call of the function computes a part of them.
  [[nodiscard]] llvm::Value* num_rows() const noexcept { return num_rows_; }
  [[nodiscard]] llvm::Value* rows_per_block() const noexcept { return rows_per_block_; }

  /// The address of the first element of a span of `ref`, in memory or where a computed value is
  /// kept.
  [[nodiscard]] llvm::Value* source(const RowRef& ref, const Span& span);
  [[nodiscard]] llvm::Value* scratch(size_t value, const Span& span);
  [[nodiscard]] llvm::Value* output(size_t output, size_t value, const Span& span);

 private:
  struct Operand {
    llvm::Value* data = nullptr;
    llvm::Value* rows = nullptr;
    llvm::Value* row_stride = nullptr;    // elements
    llvm::Value* inner_stride = nullptr;  // elements
  };

  [[nodiscard]] llvm::Value* load_argument(llvm::Value* arguments, size_t offset, llvm::Type* type);
  [[nodiscard]] llvm::Type* element_of(const RowValue& value) const;
  [[nodiscard]] llvm::Value* row_of(const RowValue& value, llvm::Value* row);
  [[nodiscard]] llvm::Value* table_row(const RowValue& value, llvm::Value* row);
  [[nodiscard]] llvm::Value* zeros(int64_t bytes);
  [[nodiscard]] llvm::Value* head_of(llvm::Value* base, const RowRef& ref);
  [[nodiscard]] llvm::Value* element(llvm::Value* base, const RowValue& value, const Span& span);

  llvm::IRBuilder<>& ir_;
  const RowLoops& loops_;
  llvm::Value* num_rows_ = nullptr;
  llvm::Value* rows_per_block_ = nullptr;
  llvm::Value* scratch_ = nullptr;
  std::vector<Operand> operands_;   // inputs, then outputs
  std::vector<llvm::Value*> rows_;  // by value: the address of the current row
  std::vector<llvm::Value*> output_rows_;
  llvm::Value* head_ = nullptr;
  // Addresses in the current head, by base address and those fields of the reference that matter.
  std::map<std::tuple<llvm::Value*, int64_t, bool>, llvm::Value*> heads_;
};

}  // namespace reprise::compile
