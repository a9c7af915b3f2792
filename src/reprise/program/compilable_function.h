#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/program/guarded_function.h"
#include "reprise/tensor/compile_support.h"

namespace reprise::program {

/// A function of tensors that may be compiled: one line around any callable.
///
///     CompilableFunction block(forward, {"x"}, {.parameter_memory = weights});
///     std::vector<Tensor> y = block.run(inputs, executor);
///
/// The first call decides: what the arguments are tells the types, and which of their dimensions
/// are open the CompileSupport tells. From then on the function is a guarded program (level 1).
/// Engines do the same with a whole model and go on from there: see compile::compile_program.
///
/// Belongs to one thread.
class CompilableFunction {
 public:
  struct Memory {
    std::vector<device::BufferView> parameter_memory;  // weights: read, never written
    std::vector<TraceState> states;                    // memory that the function may write to
  };

  /// `argument_names`: one per input, unique.
  CompilableFunction(TracedFunction function,
                     std::vector<std::string> argument_names,
                     Memory memory,
                     CompileSupport support = {});

  /// \throws InvalidArgument for a dynamic dimension of an argument that there is not, TraceError
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs, OpExecutor& executor);

  /// Nothing before the first call, and where compiling is switched off.
  [[nodiscard]] const GuardedFunction* compiled() const noexcept { return compiled_.get(); }

 private:
  [[nodiscard]] TraceSignature signature_of(std::span<const Tensor> inputs) const;
  [[nodiscard]] bool is_dynamic(size_t argument, int dim) const;

  TracedFunction function_;
  std::vector<std::string> names_;
  Memory memory_;
  CompileSupport support_;
  std::optional<bool> is_enabled_;
  std::unique_ptr<GuardedFunction> compiled_;
};

}  // namespace reprise::program
