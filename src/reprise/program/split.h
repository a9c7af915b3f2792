#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/program.h"

namespace reprise::program {

/// The ops at which a program is cut into pieces.
struct SplittingOps {
  SplittingOps() = default;
  SplittingOps(std::vector<OpCode> ops) : codes(std::move(ops)) {}  // NOLINT: a list of ops is one

  std::vector<OpCode> codes;
  std::vector<const CustomOp*> custom;

  [[nodiscard]] bool contains(const Node& node) const;
};

/// Finds the ops that a user's `splitting_ops` list names. An entry is an op's own name
/// ("attention", "kv_write"), vLLM's name ("vllm::unified_attention_with_output", with or without
/// ".default"), or the name of a custom op. An entry with a namespace that matches no op is
/// ignored, so that vLLM's default list can be used unchanged.
/// \throws InvalidArgument for an entry without a namespace that matches no op
[[nodiscard]] SplittingOps parse_splitting_ops(std::span<const std::string> splitting_ops,
                                               std::span<const CustomOp* const> custom_ops = {});

/// One part of a split program: which program it runs, and where that program's inputs and slots
/// come from. A boundary value is explained at SplitProgram.
struct Piece {
  size_t program = 0;  // index into SplitProgram::programs; equal pieces have the same index
  // True: the piece holds splitting ops and their views, and is never captured.
  bool is_splitting = false;
  std::vector<size_t> inputs;   // boundary value of each input
  std::vector<size_t> outputs;  // boundary value of each output
  // Parameter slot of the whole program, for each parameter slot of the piece.
  std::vector<size_t> parameters;
  std::vector<size_t> states;  // state slot of the whole program, for each state slot of the piece
  std::vector<size_t> dead;    // boundary values whose last use is this piece
};

/// A program that is cut at its splitting ops: the distinct programs, and the pieces in order of
/// execution. A boundary value is a value that one piece passes to another; the first boundary
/// values are the inputs of the whole program. A piece that needs a view of a boundary value makes
/// the view itself. So all boundary values are dense, except views that the whole program returns.
struct SplitProgram {
  std::vector<Program> programs;
  std::vector<Piece> pieces;
  size_t num_boundary_values = 0;
  std::vector<size_t> outputs;  // the boundary values that the whole program returns

  [[nodiscard]] size_t num_capturable_pieces() const noexcept;
  /// The number of distinct programs that capturable pieces run.
  [[nodiscard]] size_t num_unique_capturable_pieces() const;
};

/// Cuts a program before and after every op of `splitting_ops`. The order of ops does not change.
/// Splitting ops that follow each other share a piece. A piece that has only `empty` ops is merged
/// into the capturable piece before it, if there is one. Without splitting ops the result is one
/// piece.
/// \pre verify(program) finds no violation
[[nodiscard]] SplitProgram split(const Program& program, const SplittingOps& splitting_ops);

/// Runs a split program piece by piece through any executor. The results have the same bits as
/// those of the whole program. It borrows the split program.
class SplitInterpreter {
 public:
  /// \throws ProgramError if a piece is not well formed
  explicit SplitInterpreter(const SplitProgram& program);

  /// Runs the program once and returns its outputs. `values` has the symbols of the whole program,
  /// see bind_symbols().
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        const SymbolValues& values,
                                        OpExecutor& executor);

 private:
  const SplitProgram* program_;            // owned by the caller
  std::vector<Interpreter> interpreters_;  // by unique program
};

}  // namespace reprise::program
