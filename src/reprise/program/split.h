#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/program.h"

namespace reprise::program {

/// The ops before and after which programs are cut.
struct SplittingOps {
  SplittingOps() = default;
  SplittingOps(std::vector<OpCode> ops) : codes(std::move(ops)) {}  // NOLINT: a list of ops is one

  std::vector<OpCode> codes;
  std::vector<const CustomOp*> custom;

  [[nodiscard]] bool contains(const Node& node) const;
};

/// The ops that the entries of `splitting_ops` name: by their own names ("attention", "kv_write"),
/// by vLLM's ("vllm::unified_attention_with_output", with or without ".default"), or by the names
/// of custom ops. An entry with a namespace that matches no op is skipped, so that vLLM's default
/// list works unchanged. \throws InvalidArgument for an entry without a namespace that matches no
/// op
[[nodiscard]] SplittingOps parse_splitting_ops(std::span<const std::string> splitting_ops,
                                               std::span<const CustomOp* const> custom_ops = {});

/// One part of a split program: the program that it runs, and that program's inputs and slots.
struct Piece {
  size_t program = 0;              // index into SplitProgram::programs; equal pieces share one
  bool is_splitting = false;       // holds splitting ops and their views; never captured
  std::vector<size_t> inputs;      // boundary value of each input
  std::vector<size_t> outputs;     // boundary value of each output
  std::vector<size_t> parameters;  // slot of the whole program for each parameter slot
  std::vector<size_t> states;      // slot of the whole program for each state slot
  std::vector<size_t> dead;        // boundary values that nothing needs after this piece
};

/// A program cut at splitting ops: unique programs, and the order in which pieces run them.
/// Boundary values are the values that one piece hands to another; the first of them are the inputs
/// of the whole program. Every piece that uses a view makes the view itself, so boundary values are
/// dense, except a view that the whole program returns.
struct SplitProgram {
  std::vector<Program> programs;
  std::vector<Piece> pieces;
  size_t num_boundary_values = 0;
  std::vector<size_t> outputs;  // boundary values

  [[nodiscard]] size_t num_capturable_pieces() const noexcept;
  /// The number of unique programs among the pieces that are not splitting.
  [[nodiscard]] size_t num_unique_capturable_pieces() const;
};

/// Cuts before and after every op of `splitting_ops` and keeps the order. Adjacent splitting ops
/// share a piece. A piece that has only `empty` ops joins the capturable piece before it, if there
/// is one. Without splitting ops there is one piece. \pre verify(program) finds no violation
[[nodiscard]] SplitProgram split(const Program& program, const SplittingOps& splitting_ops);

/// Runs a split program piece by piece through any executor. The results are the bits of the whole
/// program. The split program is borrowed.
class SplitInterpreter {
 public:
  /// \throws ProgramError if a piece is not well formed
  explicit SplitInterpreter(const SplitProgram& program);

  /// The outputs of one run. `values` are the symbols of the whole program. See bind_symbols().
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        const SymbolValues& values,
                                        OpExecutor& executor);

 private:
  const SplitProgram* program_;            // owned by the caller
  std::vector<Interpreter> interpreters_;  // by unique program
};

}  // namespace reprise::program
