#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/program.h"

namespace reprise::program {

/// Where programs are cut: before and after each op of these.
struct SplittingOps {
  SplittingOps() = default;
  SplittingOps(std::vector<OpCode> ops) : codes(std::move(ops)) {}  // NOLINT: a list of ops is one

  std::vector<OpCode> codes;
  std::vector<const CustomOp*> custom;

  [[nodiscard]] bool contains(const Node& node) const;
};

/// The ops that entries of `splitting_ops` name: our own names ("attention", "kv_write"), vLLM's
/// ("vllm::unified_attention_with_output", with or without ".default") and those of custom ops.
/// Names of a namespace that nobody here implements name nothing and are skipped, so that vLLM's
/// default list works as it is. \throws InvalidArgument for a name without namespace that no op has
[[nodiscard]] SplittingOps parse_splitting_ops(std::span<const std::string> splitting_ops,
                                               std::span<const CustomOp* const> custom_ops = {});

/// One part of a split program: which program it runs, and what that program's inputs and slots
/// are.
struct Piece {
  size_t program = 0;              // in SplitProgram::programs; equal pieces have the same
  bool is_splitting = false;       // holds splitting ops (and views for them); stays out of graphs
  std::vector<size_t> inputs;      // boundary value of each input
  std::vector<size_t> outputs;     // boundary value of each output
  std::vector<size_t> parameters;  // slot of the whole program for each parameter slot
  std::vector<size_t> states;      // slot of the whole program for each state slot
  std::vector<size_t> dead;        // boundary values that nothing needs after this piece
};

/// A program cut at splitting ops: unique programs, and the order in which pieces run them. Values
/// that cross from one piece to another are boundary values; the first of them are the inputs of
/// the whole. A view is made again in every piece that uses it, so boundary values are dense,
/// unless the whole returns a view.
struct SplitProgram {
  std::vector<Program> programs;
  std::vector<Piece> pieces;
  size_t num_boundary_values = 0;
  std::vector<size_t> outputs;  // boundary values

  [[nodiscard]] size_t num_capturable_pieces() const noexcept;
  /// Unique programs among the pieces that are not splitting.
  [[nodiscard]] size_t num_unique_capturable_pieces() const;
};

/// Cuts before and after every op of `splitting_ops`. Order is kept; neighbouring splitting ops
/// share a piece; a piece of nothing but `empty` joins the capturable piece before it, if there is
/// one. No splitting ops: one piece. \pre verify(program) is content
[[nodiscard]] SplitProgram split(const Program& program, const SplittingOps& splitting_ops);

/// Runs a split program piece by piece through any executor: the same results as the whole program,
/// bit for bit. The split program is borrowed.
class SplitInterpreter {
 public:
  /// \throws ProgramError if a piece is not well formed
  explicit SplitInterpreter(const SplitProgram& program);

  /// The outputs of one run. `values` are those of the whole program: see bind_symbols().
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        const SymbolValues& values,
                                        OpExecutor& executor);

 private:
  const SplitProgram* program_;            // owned by the caller
  std::vector<Interpreter> interpreters_;  // by unique program
};

}  // namespace reprise::program
