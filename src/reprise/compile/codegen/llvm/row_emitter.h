#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/compile/codegen/llvm/row_memory.h"
#include "reprise/compile/codegen/llvm/vector_builder.h"
#include "reprise/compile/codegen/row_loops.h"

namespace reprise::compile {

/// Generates the function of one row group (a CpuKernelFunction that takes RowGroupArguments) from
/// its loops. The generated function computes row by row. For each row it runs all nests; a nest
/// runs its loops for each head; a loop runs its actions for each span of elements.
class RowEmitter {
 public:
  /// The loops must outlive this object.
  RowEmitter(llvm::Module& module, const RowLoops& loops, kernels::Isa isa);

  [[nodiscard]] llvm::Function* emit(const std::string& symbol);

  // Functions for the ops (row_ops.h).

  [[nodiscard]] VectorBuilder& vectors() noexcept { return vectors_; }
  [[nodiscard]] llvm::IRBuilder<>& ir() noexcept { return ir_; }
  /// The values of a span of an operand: computed in this loop, or loaded.
  [[nodiscard]] Tile evaluate(const RowRef& ref, const Span& span);
  /// The scale of an rms_norm: the same number in all lanes.
  [[nodiscard]] llvm::Value* scale_of(size_t norm) const { return scales_.at(norm); }

 private:
  /// Two vectors in which squares are summed. Vectors of the row are added to the two in turn, as
  /// in rms_norm.inl.
  using Sums = std::array<llvm::Value*, 2>;
  struct PendingStore {
    llvm::Value* pointer;
    DType dtype;
    Tile tile;
    Span span;
  };
  using TileKey = std::tuple<size_t, int64_t, bool, llvm::Value*, int64_t, int, Layout>;

  void emit_rows(llvm::Value* begin, llvm::Value* end);
  void emit_row(llvm::Value* row);
  void emit_nest(const RowNest& nest);
  void emit_heads(std::span<const RowLoop> loops,
                  const std::function<void(llvm::Value*)>& at_end = {},
                  const std::function<void(llvm::Value*)>& at_begin = {});
  void emit_head(std::span<const RowLoop> loops);
  [[nodiscard]] std::map<size_t, llvm::Value*> allocate_scales(const RowNest& nest);
  void keep_scales(llvm::Value* head);
  void load_scales(llvm::Value* head);
  void evaluate_shared_tables(const RowNest& nest);
  void emit_loop(const RowLoop& loop);
  void emit_pairs(const RowLoop& loop, int64_t width, std::vector<Sums>& sums);
  void emit_pair_loop(const RowLoop& loop, int64_t end, std::vector<Sums>& sums);
  void emit_tail(const RowLoop& loop, int64_t begin, std::vector<Sums>& sums);
  void emit_span(const RowLoop& loop, const Span& span, std::vector<Sums>& sums);
  void emit_store(const RowAction& action, const Span& span);
  void finish_sums(const RowLoop& loop, const std::vector<Sums>& sums);
  void flush_stores();

  /// Emits `body` for each number from `begin` (inclusive) to `end` (exclusive). \pre begin < end
  template <typename Body>
  void emit_counted_loop(
      const char* name, llvm::Value* begin, llvm::Value* end, uint64_t step, Body body);
  [[nodiscard]] bool is_evaluated_here(size_t value) const;
  [[nodiscard]] static size_t num_sums(const RowLoop& loop);
  /// How many loops at the start of an unrolled nest only compute sums.
  [[nodiscard]] static size_t num_leading_sum_loops(const RowNest& nest);

  const RowLoops& loops_;
  llvm::Module& module_;
  llvm::IRBuilder<> ir_;
  VectorBuilder vectors_;
  RowMemory memory_;
  Layout pair_layout_;
  const RowNest* nest_ = nullptr;
  const RowLoop* loop_ = nullptr;
  std::map<TileKey, Tile> tiles_;                // values of spans that are in registers
  std::map<size_t, llvm::Value*> scales_;        // by rms_norm: its scale, in all lanes
  std::map<size_t, llvm::Value*> scale_memory_;  // by rms_norm: memory with one scale per head
  std::vector<PendingStore> stores_;
};

}  // namespace reprise::compile
