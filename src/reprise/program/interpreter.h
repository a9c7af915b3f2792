#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reprise/program/program.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

namespace reprise::program {

/// What the symbols are, given the sizes of a program's inputs. Symbols that no input mentions are
/// 0. \throws InvalidArgument if the inputs do not have the program's types or contradict each
/// other
[[nodiscard]] SymbolValues bind_symbols(const Program& program, std::span<const Tensor> inputs);

/// Tensors of a program's slots.
struct SlotTensors {
  std::vector<Tensor> parameters;
  std::vector<Tensor> states;
};

/// Runs a program by issuing its ops in order through any executor, and lets go of each value after
/// its last use. What it computes is what the model computes, bit for bit: the oracle for
/// everything that changes programs.
///
/// Belongs to one thread. The program is borrowed and must stay as it is.
class Interpreter {
 public:
  /// \throws ProgramError if the program is not well formed
  explicit Interpreter(const Program& program);

  /// The outputs of one run. Writes to states and to buffer inputs.
  /// \pre the tensors have the program's types for these values
  /// \throws what the executor throws
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        const SymbolValues& values,
                                        OpExecutor& executor);
  /// Same, with the symbols bound from the inputs.
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs,
                                        const SlotTensors& slots,
                                        OpExecutor& executor) {
    return run(inputs, slots, bind_symbols(*program_, inputs), executor);
  }

  [[nodiscard]] const Program& program() const noexcept { return *program_; }

 private:
  void run_node(const Node& node, const SymbolValues& values, OpExecutor& executor);

  const Program* program_;                  // owned by the caller
  std::vector<std::vector<ValueId>> dead_;  // by node: values that nothing needs after it
  std::vector<Tensor> tensors_;             // by value
  std::vector<Tensor> operands_;            // of the node being run
};

}  // namespace reprise::program
