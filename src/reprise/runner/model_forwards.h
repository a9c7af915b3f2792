#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "reprise/attention/attention_layer.h"
#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/split.h"
#include "reprise/program/trace.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/model_runner_options.h"
#include "reprise/runner/program_forward.h"

namespace reprise::program {
struct ParameterSlot;
struct RangedPrograms;
}  // namespace reprise::program

namespace reprise::runner {

/// The forwards of a model: its own code (level 0) or programs that were traced from it (levels 1
/// to 3), for batches without adapters and for batches with them. A wrapper for FULL graphs
/// surrounds them. Owns forwards and graphs; borrows everything else. Belongs to one thread.
class ModelForwards {
 public:
  /// `options` and `caches` must outlive this object.
  ModelForwards(Execution& execution,
                models::CausalLM& model,
                const models::Parameters& parameters,
                const ModelRunnerOptions& options,
                const attention::LayerCaches& caches);
  ModelForwards(const ModelForwards&) = delete;
  ModelForwards& operator=(const ModelForwards&) = delete;

  /// See the functions of ModelRunner with these names.
  [[nodiscard]] CompileSupport compile_support() const { return model_->compile_support(); }
  [[nodiscard]] program::TracedProgram trace(ForwardKind kind) const;
  [[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
      const program::TracedProgram& traced) const;
  /// Returns the memory that the programs' graphs will refer to.
  [[nodiscard]] device::BufferView use_programs(program::RangedPrograms programs, ForwardKind kind);
  void use_guards(program::SplittingOps splitting_ops, ForwardKind kind);

  /// Runs the forward that the context's descriptor asks for, or replays its FULL graph.
  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) {
    full_(context, inputs, outputs);
  }

  /// Destroys the graphs of a key. \pre none of them runs
  void forget(const cudagraph::PlannedKey& key);

  [[nodiscard]] cudagraph::CapturePermission& permission() noexcept { return permission_; }
  [[nodiscard]] const cudagraph::CudagraphWrapper& full_wrapper() const noexcept { return full_; }
  [[nodiscard]] const Forward& base() const noexcept { return *base_; }
  /// PIECEWISE graphs of all forwards.
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept;
  [[nodiscard]] size_t graph_bytes() const noexcept;

 private:
  [[nodiscard]] program::TraceSignature signature() const;
  [[nodiscard]] program::TracedFunction function(ForwardKind kind) const;
  [[nodiscard]] ProgramForwardOptions program_options() const;
  /// The forward of this kind, which another one will replace.
  [[nodiscard]] std::unique_ptr<Forward>& forward_to_replace(ForwardKind kind);

  Execution* execution_;
  models::CausalLM* model_;
  const models::Parameters* parameters_;
  const ModelRunnerOptions* options_;
  attention::LayerCaches caches_;
  cudagraph::CapturePermission permission_;
  std::unique_ptr<Forward> base_;
  // For batches with adapters. nullptr: base_ runs the model's own code, which serves both kinds.
  std::unique_ptr<Forward> with_adapters_;
  cudagraph::CudagraphWrapper full_;
};

}  // namespace reprise::runner
