#pragma once

#include <memory>
#include <vector>

#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/interpreter.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"

namespace reprise::runner {

struct ProgramForwardOptions {
  // The sizes of the largest batch, for which the arena must have room.
  program::SymbolValues largest;
  bool copy_inputs = false;     // cudagraph_copy_inputs
  int64_t tokens_per_unit = 1;  // what the program's T counts: TokenRange::multiple
};

/// The symbol values of the largest batch, in the units of a program with these options.
[[nodiscard]] program::SymbolValues largest_of(const ProgramForwardOptions& options);

/// Levels 1 to 3: runs a program piece by piece. The splitting pieces (attention) run eagerly
/// between graphs, so they read the current batch and not the batch that was captured. There are
/// two ways to capture. Either each capturable piece has a wrapper and is a graph of its own (level
/// 3), or one wrapper surrounds the whole program and its capture is interrupted at the splitting
/// pieces.
///
/// Results are stored in one arena. A result's address depends only on the sizes of the batch, so a
/// replay finds it where the capture put it.
class ProgramForward final : public Forward {
 public:
  /// `slots` are the weights and caches of the whole program. `arena` has the bytes that the
  /// program's memory plan needs for the largest batch. All references are borrowed.
  /// \throws program::ProgramError
  ProgramForward(program::CompiledProgram program,
                 const program::SlotTensors& slots,
                 void* arena,
                 Execution& execution,
                 const cudagraph::CapturePermission& permission,
                 const ProgramForwardOptions& options);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override;
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override;
  [[nodiscard]] size_t graph_bytes() const noexcept override;
  void forget(const cudagraph::BatchDescriptor& descriptor) override;
  [[nodiscard]] const program::CompiledProgram& program() const noexcept { return program_; }

 private:
  struct PieceState {
    program::SlotTensors slots;
    // nullptr: the piece is not captured alone.
    std::unique_ptr<cudagraph::CudagraphWrapper> wrapper;
    std::vector<Tensor> inputs;  // kept to avoid an allocation in each step
    std::vector<Tensor> outputs;
  };

  void run_pieces(cudagraph::ForwardContext& context, std::vector<Tensor>& outputs);
  void run_splitting_piece(cudagraph::ForwardContext& context, size_t index);
  void run_capturable_piece(cudagraph::ForwardContext& context, size_t index);
  void interpret(size_t index, std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  void gather_inputs(std::span<const Tensor> step_inputs,
                     size_t index,
                     std::vector<Tensor>& to) const;
  void scatter_outputs(size_t index);

  program::CompiledProgram program_;
  Execution* execution_;
  const cudagraph::CapturePermission* permission_;
  std::unique_ptr<program::PlannedArena> arena_;    // nullptr: the program has no memory plan
  std::vector<std::vector<const RowGroup*>> code_;  // by program; the interpreters refer to it
  // One for each piece, with the memory plan of that piece.
  std::vector<program::Interpreter> interpreters_;
  std::vector<PieceState> pieces_;
  std::unique_ptr<cudagraph::CudagraphWrapper> breakable_;  // nullptr: the pieces have wrappers
  program::SymbolValues values_;                            // symbol values of the current step
  int64_t tokens_per_unit_ = 1;
  std::vector<Tensor> boundary_;
};

}  // namespace reprise::runner
