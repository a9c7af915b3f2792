#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "reprise/program/guarded_function.h"
#include "reprise/program/split.h"
#include "reprise/program/trace.h"
#include "reprise/runner/program_forward.h"

namespace reprise::runner {

/// Level 1 of a model that has no program for all numbers of tokens: its ops depend on the number,
/// or its CompileSupport leaves it fixed. Each program has a number of tokens as its guard. A batch
/// that no guard lets through is traced, and its program is kept. After kMaxPrograms programs, and
/// for batches that cannot be traced, the model's own code runs.
///
/// Programs run as they were traced, op by op. A capture is interrupted at the splitting ops. The
/// batch of a key has always the same number of tokens, so its replay finds the same program.
///
/// Source of the behaviour: torch.compile, which guards its programs and compiles again. Belongs to
/// one thread.
class GuardedForward final : public Forward {
 public:
  static constexpr size_t kMaxPrograms = program::GuardedFunction::kMaxPrograms;
  /// Traces the forward for batches of this many tokens. \throws program::TraceError
  using TraceAt = std::function<program::TracedProgram(int64_t num_tokens)>;

  /// `own_code` runs the same model. All references are borrowed.
  GuardedForward(TraceAt trace_at,
                 program::SplittingOps splitting_ops,
                 std::unique_ptr<Forward> own_code,
                 Execution& execution,
                 const cudagraph::CapturePermission& permission,
                 const ProgramForwardOptions& options);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override;
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override;
  [[nodiscard]] size_t graph_bytes() const noexcept override;
  void forget(const cudagraph::BatchDescriptor& descriptor) override;

  /// The number of programs, at most kMaxPrograms.
  [[nodiscard]] size_t num_programs() const noexcept;
  /// How many calls ran the model's own code.
  [[nodiscard]] size_t num_own_code_runs() const noexcept { return num_own_code_runs_; }

 private:
  struct Guarded {
    int64_t num_tokens = 0;
    std::unique_ptr<ProgramForward> program;  // nullptr: the batch cannot be traced
  };

  [[nodiscard]] const Guarded* find(int64_t num_tokens) const noexcept;
  [[nodiscard]] const Guarded* trace_for(int64_t num_tokens);

  TraceAt trace_at_;
  program::SplittingOps splitting_ops_;
  std::unique_ptr<Forward> own_code_;
  Execution* execution_;
  const cudagraph::CapturePermission* permission_;
  ProgramForwardOptions options_;
  std::vector<Guarded> guarded_;
  size_t num_own_code_runs_ = 0;
};

}  // namespace reprise::runner
