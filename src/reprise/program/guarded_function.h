#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/trace.h"

namespace reprise::program {

/// Level 1: a traced function with guards. A function that takes no decision by a size becomes one
/// program for all batches. Any other function becomes one program for each combination of sizes
/// that it is called with, and exactly these sizes guard the program. After kMaxPrograms programs,
/// further sizes run the function itself.
///
/// Source of the behaviour: torch.compile's specialisation with a recompile limit of 8
/// (torch._dynamo.config.recompile_limit). It differs in that guards are whole sizes, because a
/// trace of C++ sees no comparisons. A GuardedFunction belongs to one thread.
class GuardedFunction {
 public:
  static constexpr size_t kMaxPrograms = 8;

  GuardedFunction(TraceSignature signature, TracedFunction function);

  /// The results of the function for these inputs. A program computes them where one fits.
  /// \throws InvalidArgument if the inputs do not fit the signature, TraceError if no program can
  /// express the function for any sizes
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs, OpExecutor& executor);

  [[nodiscard]] size_t num_programs() const noexcept { return guarded_.size(); }
  /// How often the function itself ran, because there were kMaxPrograms programs.
  [[nodiscard]] size_t num_eager_runs() const noexcept { return num_eager_runs_; }

 private:
  struct Guarded {
    std::optional<SymbolValues> sizes;  // nothing: the program serves all sizes
    TracedProgram traced;
    std::unique_ptr<Interpreter> interpreter;
  };

  Guarded* find(const SymbolValues& sizes);
  Guarded* add(std::optional<SymbolValues> sizes, TracedProgram traced);
  Guarded* trace_for(const SymbolValues& sizes);

  TraceSignature signature_;
  TracedFunction function_;
  Program inputs_;  // has only the inputs; binds their sizes to symbols
  std::vector<std::unique_ptr<Guarded>> guarded_;
  bool decides_by_size_ = false;
  size_t num_eager_runs_ = 0;
};

}  // namespace reprise::program
