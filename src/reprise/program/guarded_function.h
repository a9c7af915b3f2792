#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/program/interpreter.h"
#include "reprise/program/trace.h"

namespace reprise::program {

/// Level 1: a traced function with guards. If the function runs the same ops for all sizes, one
/// program serves all batches. If it branches on a size, every combination of sizes gets its own
/// program, whose guard is exactly that combination. After kMaxPrograms programs, calls with
/// further sizes run the function without a program.
///
/// Source of the behaviour: torch.compile's specialisation with a recompile limit of 8
/// (torch._dynamo.config.recompile_limit). Dynamo guards the compared expressions; a trace of C++
/// does not see comparisons, so a guard here compares all sizes. A GuardedFunction belongs to one
/// thread.
class GuardedFunction {
 public:
  static constexpr size_t kMaxPrograms = 8;

  GuardedFunction(TraceSignature signature, TracedFunction function);

  /// Returns the results of the function for these inputs. If no program fits their sizes, the
  /// function is traced for them or, after kMaxPrograms programs, it runs itself.
  /// \throws InvalidArgument if the inputs do not fit the signature, TraceError if no program can
  /// express the function for any sizes
  [[nodiscard]] std::vector<Tensor> run(std::span<const Tensor> inputs, OpExecutor& executor);

  [[nodiscard]] size_t num_programs() const noexcept { return guarded_.size(); }
  /// How many calls ran the function itself, because there were already kMaxPrograms programs.
  [[nodiscard]] size_t num_eager_runs() const noexcept { return num_eager_runs_; }

 private:
  struct Guarded {
    // The sizes that the inputs must have; nothing: the program serves all sizes.
    std::optional<SymbolValues> sizes;
    TracedProgram traced;
    std::unique_ptr<Interpreter> interpreter;
  };

  Guarded* find(const SymbolValues& sizes);
  Guarded* add(std::optional<SymbolValues> sizes, TracedProgram traced);
  Guarded* trace_for(const SymbolValues& sizes);

  TraceSignature signature_;
  TracedFunction function_;
  // A program without ops, only to find the symbols' values from the sizes of the inputs.
  Program inputs_;
  std::vector<std::unique_ptr<Guarded>> guarded_;
  bool decides_by_size_ = false;
  size_t num_eager_runs_ = 0;
};

}  // namespace reprise::program
