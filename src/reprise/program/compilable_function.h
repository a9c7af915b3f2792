#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/program/guarded_function.h"
#include "reprise/tensor/compile_support.h"

namespace reprise::program {

/// A function of tensors that is compiled when it is first called. One line wraps any callable:
///
///     CompilableFunction block(forward, {"x"}, {.parameter_memory = weights});
///     std::vector<Tensor> y = block.run(inputs, executor);
///
/// The first call traces the function. The arguments of that call give the types, and
/// CompileSupport names the dimensions whose size may change from call to call. Later calls run the
/// program through a GuardedFunction (level 1). An engine instead traces a whole model and compiles
/// it with compile::compile_program.
///
/// A CompilableFunction belongs to one thread.
class CompilableFunction {
 public:
  struct Memory {
    std::vector<device::BufferView> parameter_memory;  // weights: read, never written
    std::vector<TraceState> states;                    // memory that the function may write to
  };

  /// `argument_names` has one unique name per input.
  CompilableFunction(TracedFunction function,
                     std::vector<std::string> argument_names,
                     Memory memory,
                     CompileSupport support = {});

  /// \throws InvalidArgument if a dynamic dimension names an argument that does not exist,
  /// TraceError
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs, OpExecutor& executor);

  /// nullptr before the first call, and if CompileSupport forbids compiling.
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
