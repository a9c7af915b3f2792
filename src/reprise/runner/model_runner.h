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
#include "reprise/runner/step_times.h"

namespace reprise::program {
struct RangedPrograms;
}

namespace reprise::engine {

struct ModelRunnerOptions {
  BatchLimits limits;
  kv_cache::KvCacheLayout kv_cache;
  cudagraph::DispatcherOptions dispatcher;
  /// Must support what the dispatcher's options say; nullptr: what "auto" means.
  const attention::BackendInfo* attention = nullptr;
  attention::SplitPlanOptions split_plan;
  int num_warmups = 0;       // eager runs before each capture
  bool copy_inputs = false;  // cudagraph_copy_inputs
};

/// What one step produced. Valid until the next step.
struct StepResult {
  cudagraph::Decision decision;
  /// What was dispatched first, if its graph could not be replayed.
  std::optional<cudagraph::Decision> retired;
  Tensor logits;           // float32[>= num_logits, vocab_size]
  int32_t num_logits = 0;  // rows that were asked for, in batch order
};

/// A graph that could not be replayed: it was retired and its step ran eagerly.
struct RetiredGraph {
  cudagraph::CudagraphRuntimeMode mode;
  cudagraph::BatchDescriptor descriptor;
  std::string reason;
};

/// What the device was asked to start during one step.
struct StepLaunches {
  uint64_t graphs = 0;
  uint64_t kernels = 0;

  [[nodiscard]] uint64_t total() const noexcept { return graphs + kernels; }
};

/// Runs a model step by step: asks the dispatcher, stages the batch into persistent buffers, and
/// calls its forward through two nested wrappers, FULL outside PIECEWISE. Logits are part of the
/// graphs (docs/adr/0004): the number of rows that are wanted is read on the device.
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

  /// What the model says about being compiled.
  [[nodiscard]] CompileSupport compile_support() const { return model_->compile_support(); }
  /// The model's forward as a program: its slots are this runner's cache and the model's weights.
  /// \throws program::TraceError
  [[nodiscard]] program::TracedProgram trace() const;
  [[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
      const program::TracedProgram& traced) const;
  /// From now on steps run these instead of the model's code. \pre nothing is captured yet
  /// \throws InvalidArgument if one is not a program of this model, OutOfMemory
  void use_programs(program::RangedPrograms programs);

  /// Runs a made-up batch of as many tokens, requests and rows of logits as a step can have,
  /// eagerly.
  /// \throws OutOfMemory, device::DeviceError
  void run_largest_step();

  /// Captures the dispatcher's plan. `on_progress` may be empty.
  cudagraph::CaptureReport capture(
      const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress);

  /// One step: dispatch, stage, run. A graph whose memory has moved is retired and the step runs
  /// eagerly instead. Steady state: no allocation, no capture.
  /// \throws device::DeviceError
  const StepResult& execute(std::span<const BatchRow> rows, const cudagraph::BatchFacts& facts);

  /// Runs a batch staged at the shape of `decision`, as `run_as`: its own mode, or NONE for the
  /// same launches eagerly, which is what replay must equal bit for bit.
  const StepResult& run(std::span<const BatchRow> rows,
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
  /// Returns when the device has done what was launched.
  void wait();
  /// Of the last execute(): prepare, launch, wait; and what whoever uses its logits adds.
  [[nodiscard]] StepSpans& spans() noexcept { return spans_; }
  /// Of the last execute(). What was dispatched is there even if that threw.
  [[nodiscard]] const StepResult& last_result() const noexcept { return result_; }
  /// Of the last step, and of the last step that was a uniform decode batch.
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
  std::unique_ptr<Forward> forward_;  // inside full_
  cudagraph::CudagraphWrapper full_;
  std::vector<device::BufferView> bindings_;  // what graphs refer to besides their inputs
  size_t plan_binding_ = 0;                   // which of them is the plan of the step's attention
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
