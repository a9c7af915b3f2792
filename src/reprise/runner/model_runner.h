#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/trace.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"

namespace reprise::program {
struct ParameterSlot;
struct RangedPrograms;
}  // namespace reprise::program

namespace reprise::engine {

struct ModelRunnerOptions {
  BatchLimits limits;
  kv_cache::KvCacheLayout kv_cache;
  cudagraph::DispatcherOptions dispatcher;
  /// Must support the modes that the dispatcher's options use; nullptr: the backend that "auto"
  /// means.
  const attention::BackendInfo* attention = nullptr;
  attention::AttentionPlanOptions attention_plan;
  int num_warmups = 0;       // eager runs before each capture
  bool copy_inputs = false;  // cudagraph_copy_inputs
};

/// A graph that could not be replayed. It was retired, and its step ran eagerly.
struct RetiredGraph {
  cudagraph::CudagraphRuntimeMode mode;
  cudagraph::BatchDescriptor descriptor;
  std::string reason;
};

/// The number of launches that one step asked of the device.
struct StepLaunches {
  uint64_t graphs = 0;
  uint64_t kernels = 0;

  [[nodiscard]] uint64_t total() const noexcept { return graphs + kernels; }
};

/// Runs a model step by step: asks the dispatcher, stages the batch into persistent buffers, and
/// calls the forward through two nested wrappers, FULL outside PIECEWISE. The logits projection is
/// part of the graphs (docs/adr/0004); the graphs read the number of wanted rows on the device.
///
/// Life-cycle: constructed (level 0) -> use_programs() at levels 1 to 3 -> capture() -> run steps.
/// Without capture() every step is eager. One thread. Owns the cache, the buffers and the graphs;
/// borrows execution, model and parameters.
class ModelRunner {
 public:
  ModelRunner(Execution& execution,
              models::CausalLM& model,
              const models::Parameters& parameters,
              const ModelRunnerOptions& options);
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  /// The compilation support that the model declares.
  [[nodiscard]] CompileSupport compile_support() const { return model_->compile_support(); }
  /// Traces the model's forward into a program. Its slots are this runner's cache and the model's
  /// weights.
  /// \throws program::TraceError
  [[nodiscard]] program::TracedProgram trace() const;
  [[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
      const program::TracedProgram& traced) const;
  /// From now on, steps run these programs instead of the model's code. \pre no graph is captured
  /// yet
  /// \throws InvalidArgument if one is not a program of this model, OutOfMemory
  void use_programs(program::RangedPrograms programs);

  /// Runs a made-up batch of as many tokens, requests and rows of logits as a step can have,
  /// eagerly.
  /// \throws OutOfMemory, device::DeviceError
  void run_largest_step();

  /// Captures the dispatcher's plan. `on_progress` may be empty.
  cudagraph::CaptureReport capture(
      const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress);

  /// Runs one step: dispatch, stage, run. When a graph's memory has moved, the graph is retired and
  /// the step runs eagerly instead. In the steady state a step neither allocates nor captures.
  /// \throws device::DeviceError
  const StepResult& execute(std::span<const BatchRequest> requests,
                            const cudagraph::BatchFacts& facts);

  /// Runs a batch staged at the shape of `decision`. `run_as` is the mode of the decision, or NONE
  /// for the same launches eagerly. A replay must equal that eager run bit for bit.
  const StepResult& run(std::span<const BatchRequest> requests,
                        const cudagraph::Decision& decision,
                        cudagraph::CudagraphRuntimeMode run_as);

  /// One row of logits on the host. Valid until the next step. \pre row < result.num_logits
  [[nodiscard]] std::span<const float> logits_row(const StepResult& result, int32_t row);

  [[nodiscard]] const cudagraph::CudagraphDispatcher& dispatcher() const noexcept {
    return dispatcher_;
  }
  [[nodiscard]] const cudagraph::CudagraphWrapper& full_wrapper() const noexcept { return full_; }
  [[nodiscard]] const Forward& forward() const noexcept { return *forward_; }
  [[nodiscard]] const kv_cache::KvCacheTensors& kv_cache() const noexcept { return kv_cache_; }
  [[nodiscard]] InputBatch& input_batch() noexcept { return batch_; }
  /// Returns when the device has finished all launched work.
  void wait();
  /// The spans of the last execute(): prepare, launch, wait. Callers that use its logits add their
  /// own.
  [[nodiscard]] StepSpans& spans() noexcept { return spans_; }
  /// The result of the last execute(). Its decision is set even if execute() threw.
  [[nodiscard]] const StepResult& last_result() const noexcept { return result_; }
  /// Launches of the last step, and of the last step that was a uniform decode batch.
  [[nodiscard]] StepLaunches last_launches() const noexcept { return last_launches_; }
  [[nodiscard]] StepLaunches last_decode_launches() const noexcept { return last_decode_launches_; }
  [[nodiscard]] size_t graph_bytes() const noexcept;
  [[nodiscard]] std::span<const RetiredGraph> retired_graphs() const noexcept { return retired_; }

 private:
  [[nodiscard]] StagedShape staged_shape(const cudagraph::Decision& decision,
                                         int32_t num_reqs,
                                         int32_t num_logits) const;
  void run_staged(const cudagraph::BatchDescriptor& descriptor,
                  cudagraph::CudagraphRuntimeMode run_as);
  void dummy_run(const cudagraph::DummyRun& run);

  Execution* execution_;
  models::CausalLM* model_;
  const models::Parameters* parameters_;
  ModelRunnerOptions options_;
  kv_cache::KvCacheTensors kv_cache_;
  InputBatch batch_;
  std::unique_ptr<attention::AttentionBackend> attention_;
  cudagraph::CudagraphDispatcher dispatcher_;
  cudagraph::CapturePermission permission_;
  std::unique_ptr<Forward> forward_;  // owned here, called by full_
  cudagraph::CudagraphWrapper full_;
  std::vector<device::BufferView> bindings_;  // memory that graphs refer to besides their inputs
  size_t plan_binding_ = 0;                   // the index in bindings_ of the step's attention plan
  attention::AttentionMetadata metadata_;
  ForwardInputs inputs_;
  std::vector<Tensor> outputs_;
  StepResult result_;
  StepSpans spans_;
  StepLaunches last_launches_;
  StepLaunches last_decode_launches_;
  std::vector<float> host_logits_;  // only for devices the host cannot read
  std::vector<RetiredGraph> retired_;
};

}  // namespace reprise::engine
