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

/// Finds the values of a program's symbols (T, R, L, B) from the sizes of its inputs and, if they
/// are given, of its states. A symbol that occurs in no type is 0.
/// \throws InvalidArgument if the tensors do not have the program's types, or if two tensors give a
/// symbol different values
[[nodiscard]] SymbolValues bind_symbols(const Program& program,
                                        std::span<const Tensor> inputs,
                                        std::span<const Tensor> states = {});

/// The tensors in a program's parameter and state slots.
struct SlotTensors {
  std::vector<Tensor> parameters;
  std::vector<Tensor> states;
};

/// The code of each group, in the order of Program::groups. nullptr: the group has no code. The
/// caller owns the code.
using GroupCode = std::span<const RowGroup* const>;

/// The planned memory for the results of one run: placements[v] is the place of value v in the
/// arena. Without a placement, the executor allocates the result.
struct PlannedResults {
  std::span<const std::optional<Placement>> placements;
  const PlannedArena* arena = nullptr;
};

/// Runs a program: executes its ops in order through any executor, and releases each value after
/// its last use. The results have the same bits as those of the model, so tests run the interpreter
/// before and after a pass and compare. Engines run compiled programs with it. The ops of a group
/// without code run one by one.
///
/// An interpreter belongs to one thread. It borrows the program and the code, which must not
/// change. After the first runs, run() allocates no host memory.
class Interpreter {
 public:
  /// \throws ProgramError if the program is not well formed
  explicit Interpreter(const Program& program, GroupCode code = {});

  /// With Checked::already the constructor does not call check(program), because the caller has
  /// called it. Useful if several interpreters run one program.
  enum class Checked : uint8_t { already };
  Interpreter(const Program& program, GroupCode code, Checked);

  /// Runs the program once and stores its outputs in `outputs`. The program may write to states and
  /// to inputs that are buffers.
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
  /// The same, with the values of the symbols that follow from the sizes of the inputs and states.
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        OpExecutor& executor) {
    return run(inputs, slots, bind_symbols(*program_, inputs, slots.states), executor);
  }

  [[nodiscard]] const Program& program() const noexcept { return *program_; }

 private:
  struct Step {
    OpSignature signature;
    std::vector<ValueId> dead;  // values whose last use is this step
    // The call and the planned memory for the sizes of the previous run. Successive steps of an
    // engine often have the same sizes, so both are kept.
    OpCall call;
    // Planned memory of each result; undefined: the executor allocates.
    std::array<Tensor, kMaxOpOutputs> memory;
  };

  // Computes the sizes and addresses of all steps, unless they are still those of the previous run.
  void prepare(const SymbolValues& values, OpExecutor& executor, const PlannedResults& planned);
  [[nodiscard]] bool is_prepared(const SymbolValues& values,
                                 const OpExecutor& executor,
                                 const PlannedResults& planned) const noexcept;

  // If this program is the body of a group, `destinations` has one tensor for each output of the
  // program: the memory for it, or undefined, and then the executor allocates. For other programs
  // `destinations` is empty.
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
  // The arguments of the last call of prepare().
  SymbolValues values_;
  const OpExecutor* executor_ = nullptr;
  PlannedResults planned_;
};

}  // namespace reprise::program
