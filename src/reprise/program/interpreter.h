#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/program/memory_plan.h"
#include "reprise/program/program.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

namespace reprise::program {

/// The values of a program's symbols, from the sizes of its inputs and, if they are given, of its
/// states. A symbol in none of their types is 0. \throws InvalidArgument if the tensors do not have
/// the program's types, or if two of them give a symbol different values
[[nodiscard]] SymbolValues bind_symbols(const Program& program,
                                        std::span<const Tensor> inputs,
                                        std::span<const Tensor> states = {});

/// Tensors of a program's slots.
struct SlotTensors {
  std::vector<Tensor> parameters;
  std::vector<Tensor> states;
};

/// Code for groups, by position in Program::groups. nullptr: the group has no code. The caller owns
/// it.
using GroupCode = std::span<const RowGroup* const>;

/// Memory for the results of one run, by value of the program. Nothing: the executor allocates.
struct PlannedResults {
  std::span<const std::optional<Placement>> placements;
  const PlannedArena* arena = nullptr;
};

/// Runs a program: issues its ops in order through any executor, and releases each value after its
/// last use. The results are the model's own, bit for bit, so the interpreter is the oracle for
/// every change of a program; it also runs compiled programs. A group without code runs op by op.
///
/// An interpreter belongs to one thread. It borrows program and code, which must not change. In a
/// steady state run() allocates nothing on the host.
class Interpreter {
 public:
  /// \throws ProgramError if the program is not well formed
  explicit Interpreter(const Program& program, GroupCode code = {});

  /// The caller has called check(program) already, because several interpreters run the program.
  enum class Checked : uint8_t { already };
  Interpreter(const Program& program, GroupCode code, Checked);

  /// Runs the program once and puts the outputs into `outputs`. Writes to states and to buffer
  /// inputs.
  /// \pre the tensors have the program's types for these values
  /// \throws what the executor throws
  void run(std::span<const Tensor> inputs,
           const SlotTensors& slots,
           const SymbolValues& values,
           OpExecutor& executor,
           std::vector<Tensor>& outputs,
           const PlannedResults& planned = {});
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        const SymbolValues& values,
                                        OpExecutor& executor) {
    std::vector<Tensor> outputs;
    run(inputs, slots, values, executor, outputs);
    return outputs;
  }
  /// Runs the program with the values of the symbols that the inputs and states give.
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        OpExecutor& executor) {
    return run(inputs, slots, bind_symbols(*program_, inputs, slots.states), executor);
  }

  [[nodiscard]] const Program& program() const noexcept { return *program_; }

 private:
  struct Step {
    OpSignature signature;
    std::vector<ValueId> dead;  // values that nothing needs afterwards
    // Prepared for the sizes of the last run. Successive steps of an engine often have the same
    // sizes.
    OpCall call;
    std::array<Tensor, kMaxOpOutputs> memory;  // planned places of results; undefined: not planned
  };

  // Evaluates sizes and places, unless they are the ones of the last run.
  void prepare(const SymbolValues& values, OpExecutor& executor, const PlannedResults& planned);
  [[nodiscard]] bool is_prepared(const SymbolValues& values,
                                 const OpExecutor& executor,
                                 const PlannedResults& planned) const noexcept;

  // `destinations` is memory for the outputs of a group. Undefined ones are allocated.
  void run_nodes(const SymbolValues& values,
                 OpExecutor& executor,
                 std::span<const Tensor> destinations);
  void run_step(size_t index,
                const SymbolValues& values,
                OpExecutor& executor,
                std::span<const Tensor> destinations);
  void run_group(const Node& node,
                 const SymbolValues& values,
                 OpExecutor& executor,
                 std::span<Tensor> results);

  const Program* program_;  // owned by the caller
  GroupCode code_;
  std::vector<Step> steps_;                           // by node
  std::vector<std::unique_ptr<Interpreter>> groups_;  // nullptr: the group has code
  std::vector<ValueId> input_ids_;
  std::vector<Tensor> tensors_;   // by value
  std::vector<Tensor> operands_;  // of the current node
  // The sizes and places that steps_ are prepared for.
  SymbolValues values_;
  const OpExecutor* executor_ = nullptr;
  PlannedResults planned_;
};

}  // namespace reprise::program
