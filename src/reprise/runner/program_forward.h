#pragma once

#include <memory>
#include <vector>

#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/interpreter.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"

namespace reprise::engine {

struct ProgramForwardOptions {
  program::SymbolValues largest;  // the batch that the arena has to hold
  bool copy_inputs = false;       // cudagraph_copy_inputs
};

/// Levels 1 to 3: runs a program, piece by piece. Splitting pieces (attention) run eagerly between
/// graphs and read the batch of the step that runs, not of the step that was recorded. Either each
/// capturable piece is a graph of its own with a wrapper around it, or one wrapper surrounds the
/// whole program and its capture breaks at the splitting pieces.
///
/// Results lie in one arena, at places that depend only on the sizes of the batch.
class ProgramForward final : public Forward {
 public:
  /// `slots` are weights and caches of the whole program; `arena` has the bytes that its plan needs
  /// for the largest batch. All references are borrowed. \throws program::ProgramError
  ProgramForward(program::CompiledProgram program,
                 program::SlotTensors slots,
                 void* arena,
                 Execution& execution,
                 const cudagraph::CapturePermission& permission,
                 const ProgramForwardOptions& options);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override;
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override;
  [[nodiscard]] size_t graph_bytes() const noexcept override;
  [[nodiscard]] const program::CompiledProgram& program() const noexcept { return program_; }

 private:
  struct PieceState {
    program::SlotTensors slots;
    std::unique_ptr<cudagraph::CudagraphWrapper> wrapper;  // null: no capture of its own
    std::vector<Tensor> inputs;                            // reused from step to step
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
  std::unique_ptr<program::PlannedArena> arena_;    // null when the program has no memory plan
  std::vector<std::vector<const RowGroup*>> code_;  // by program; interpreters refer to it
  std::vector<program::Interpreter> interpreters_;  // by piece, with its places in the arena
  std::vector<PieceState> pieces_;
  std::unique_ptr<cudagraph::CudagraphWrapper> breakable_;  // set when pieces have no wrappers
  program::SymbolValues values_;                            // sizes of the step being run
  std::vector<Tensor> boundary_;
};

}  // namespace reprise::engine
