#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/trace.h"

namespace reprise::program {

/// Level 1: a function traced as it is, with guards. A function that decides nothing by a size is
/// one program for all batches. One that does is a program per combination of sizes that came, each
/// guarded by exactly these sizes: sound whatever the function looks at. After kMaxPrograms of them
/// further sizes run the function itself.
///
/// Source of the behaviour: torch.compile's specialisation with a recompile limit of 8
/// (torch._dynamo.config.recompile_limit); differs in that guards are whole sizes, since C++ shows
/// no comparisons. Belongs to one thread.
class GuardedFunction {
 public:
  static constexpr size_t kMaxPrograms = 8;

  GuardedFunction(TraceSignature signature, TracedFunction function);

  /// What the function returns for these inputs, through a program where there is one.
  /// \throws InvalidArgument if the inputs are not of the signature, TraceError for what no program
  /// can say whatever the sizes
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs, OpExecutor& executor);

  [[nodiscard]] size_t num_programs() const noexcept { return guarded_.size(); }
  /// Runs of the function itself, because there are programs enough.
  [[nodiscard]] size_t num_eager_runs() const noexcept { return num_eager_runs_; }

 private:
  struct Guarded {
    std::optional<SymbolValues> sizes;  // nothing: all
    TracedProgram traced;
    std::unique_ptr<Interpreter> interpreter;
  };

  Guarded* find(const SymbolValues& sizes);
  Guarded* add(std::optional<SymbolValues> sizes, TracedProgram traced);
  Guarded* trace_for(const SymbolValues& sizes);

  TraceSignature signature_;
  TracedFunction function_;
  Program inputs_;  // the inputs alone: what binds sizes
  std::vector<std::unique_ptr<Guarded>> guarded_;
  bool decides_by_size_ = false;
  size_t num_eager_runs_ = 0;
};

}  // namespace reprise::program
