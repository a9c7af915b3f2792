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

/// What the symbols are, given the sizes of a program's inputs, and of its states where these are
/// given. Symbols that none of them mentions are 0. \throws InvalidArgument if they do not have the
/// program's types or contradict each other
[[nodiscard]] SymbolValues bind_symbols(const Program& program,
                                        std::span<const Tensor> inputs,
                                        std::span<const Tensor> states = {});

/// Tensors of a program's slots.
struct SlotTensors {
  std::vector<Tensor> parameters;
  std::vector<Tensor> states;
};

/// Code for groups, by position in Program::groups; null where there is none. Owned by the caller.
using GroupCode = std::span<const RowGroup* const>;

/// Memory for the results of one run. By value; nothing = the executor allocates.
struct PlannedResults {
  std::span<const std::optional<Placement>> placements;
  const PlannedArena* arena = nullptr;
};

/// Runs a program by issuing its ops in order through any executor, and lets go of each value after
/// its last use. What it computes is what the model computes, bit for bit: the oracle for
/// everything that changes programs, and what runs compiled ones. A group without code runs op by
/// op.
///
/// Belongs to one thread. Program and code are borrowed and must stay as they are. In a steady
/// state run() allocates nothing on the host.
class Interpreter {
 public:
  /// \throws ProgramError if the program is not well formed
  explicit Interpreter(const Program& program, GroupCode code = {});

  /// Says that check(program) has been called: the same program is run in many places.
  enum class Checked : uint8_t { already };
  Interpreter(const Program& program, GroupCode code, Checked);

  /// Puts the outputs of one run into `outputs`. Writes to states and to buffer inputs.
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
  /// Same, with the symbols bound from the inputs and states.
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
    // Prepared for the sizes of the last run: steps of one engine often have the same.
    OpCall call;
    std::array<Tensor, kMaxOpOutputs> memory;  // planned places of results, where defined
  };

  // Evaluates sizes and places, if they are not those of the last run.
  void prepare(const SymbolValues& values, OpExecutor& executor, const PlannedResults& planned);
  [[nodiscard]] bool is_prepared(const SymbolValues& values,
                                 const OpExecutor& executor,
                                 const PlannedResults& planned) const noexcept;

  // `destinations`: memory for the outputs, where defined; for groups.
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
  std::vector<std::unique_ptr<Interpreter>> groups_;  // those without code
  std::vector<ValueId> input_ids_;
  std::vector<Tensor> tensors_;   // by value
  std::vector<Tensor> operands_;  // of the node being run
  // What steps_ are prepared for.
  SymbolValues values_;
  const OpExecutor* executor_ = nullptr;
  PlannedResults planned_;
};

}  // namespace reprise::program
