#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/attention/attention_backend.h"
#include "reprise/attention/cascade_attention.h"
#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/kernels/row_sampler.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/models/causal_lm.h"
#include "reprise/parallel/communicator.h"
#include "reprise/program/trace.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/expert_counts.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/rank_steps.h"
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"

namespace reprise::program {
struct ParameterSlot;
struct RangedPrograms;
}  // namespace reprise::program

namespace reprise::engine {

/// Which of the two forwards of an engine with adapters. An engine without adapters has only
/// `base`.
enum class ForwardKind : uint8_t {
  base,      // for batches without adapters: the model's own ops
  adapters,  // each projection also adds what the adapter of each token gives
};

struct ModelRunnerOptions {
  BatchLimits limits;
  kv_cache::KvCacheLayout kv_cache;
  kv_cache::StateCacheLayout states;  // of recurrent layers
  cudagraph::DispatcherOptions dispatcher;
  /// The attention backend. It must support the modes in the dispatcher's options. nullptr: the
  /// backend that "auto" stands for.
  const attention::BackendInfo* attention = nullptr;
  /// The backend of the recurrent layers of a model that also has attention.
  const attention::BackendInfo* recurrent = nullptr;
  attention::AttentionPlanOptions attention_plan;
  /// Workers that share the attention of a step, for the rule of cascade attention; 0: no step uses
  /// cascade attention, as on devices without its kernel.
  int cascade_workers = 0;
  /// The adapters of the model's layers; must outlive the runner. nullptr: the engine has none.
  lora::AdapterSlots* adapters = nullptr;
  /// Where the model's layers count the tokens of their experts; must outlive the runner. nullptr:
  /// they count nothing.
  ExpertCounts* expert_counts = nullptr;
  /// The ranks that run this model together; must outlive the runner. nullptr: this is the only
  /// one.
  parallel::Communicator* ranks = nullptr;
  /// Another group that collective ops exchange data with, of another size than `ranks`: the tensor
  /// ranks of a stage, or the engines that share experts. nullptr: there is none.
  parallel::Communicator* op_ranks = nullptr;
  /// The engines with the same model that run their steps together with this one; must outlive the
  /// runner. nullptr: steps need no other engine. Only rank 0 of `ranks` has it.
  DataParallelSteps* data_parallel = nullptr;
  int num_warmups = 0;       // eager runs before each capture
  bool copy_inputs = false;  // cudagraph_copy_inputs
  /// cudagraph_lazy_capture: capture() does nothing, and a step whose best key has no graph yet
  /// captures it first. \pre false with several ranks
  bool lazy_capture = false;
};

/// A graph that could not be replayed. It was retired, and the step ran eagerly instead.
struct RetiredGraph {
  cudagraph::CudagraphRuntimeMode mode;
  cudagraph::BatchDescriptor descriptor;
  std::string reason;
};

/// Tokens of a step that only the device knows, because it sampled them in the step before.
/// Borrowed for the call.
struct TokensOnDevice {
  kernels::RowSampler* sampler = nullptr;       // has them
  std::span<const kernels::TokenPlace> places;  // index: of a token of the batch, without padding
};

/// How many graphs and kernels one step launched.
struct StepLaunches {
  uint64_t graphs = 0;
  uint64_t kernels = 0;

  [[nodiscard]] uint64_t total() const noexcept { return graphs + kernels; }

  friend bool operator==(const StepLaunches&, const StepLaunches&) = default;
};

/// Runs the steps of a model. For each step it asks the dispatcher for a key, stages the batch into
/// persistent buffers, and calls the forward. The wrapper for FULL graphs surrounds the forward,
/// which contains the wrappers for PIECEWISE graphs. The graphs include the projection to logits
/// (docs/adr/0004): its kernel reads on the device how many rows are needed.
///
/// Life cycle: constructed (level 0), then use_programs() at levels 1 to 3, then capture(), then
/// steps. Without capture() every step is eager. Belongs to one thread. Owns the cache, the buffers
/// and the graphs; borrows execution, model and parameters.
class ModelRunner {
 public:
  ModelRunner(Execution& execution,
              models::CausalLM& model,
              const models::Parameters& parameters,
              const ModelRunnerOptions& options);
  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  /// How the model may be compiled.
  [[nodiscard]] CompileSupport compile_support() const { return model_->compile_support(); }
  [[nodiscard]] bool has_adapters() const noexcept { return options_.adapters != nullptr; }
  /// Traces a forward of the model into a program. The slots refer to this runner's cache and to
  /// the model's weights.
  /// \pre has_adapters() for ForwardKind::adapters
  /// \throws program::TraceError
  [[nodiscard]] program::TracedProgram trace(ForwardKind kind = ForwardKind::base) const;
  [[nodiscard]] std::vector<program::ParameterSlot> parameter_slots(
      const program::TracedProgram& traced) const;
  /// Makes later steps of this kind run these programs instead of the model's code.
  /// \pre no graph is captured yet
  /// \throws InvalidArgument if a program was not made from this model, OutOfMemory
  void use_programs(program::RangedPrograms programs, ForwardKind kind = ForwardKind::base);

  /// Runs a dummy batch eagerly, with the largest number of tokens, requests and rows of logits.
  /// \throws OutOfMemory, device::DeviceError
  void run_largest_step();

  /// Captures all keys of the dispatcher's capture plan. `on_progress` may be empty. All ranks call
  /// it at the same time, and compare what they captured.
  cudagraph::CaptureReport capture(
      const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress);

  /// Runs one step: dispatches, stages and runs the batch. If memory that the chosen graph uses has
  /// moved, the graph is retired and the step runs eagerly instead. After warm-up a step neither
  /// allocates nor captures. Rank 0 makes the other ranks execute the same step.
  /// \throws device::DeviceError, which is sticky if a rank is lost
  const StepResult& execute(std::span<const BatchRequest> requests,
                            const cudagraph::BatchFacts& facts,
                            const TokensOnDevice& tokens = {});
  /// Takes part in a step of the other engines with padding only. Returns false when none of them
  /// has work either. \pre ModelRunnerOptions::data_parallel \throws as execute()
  bool execute_idle();
  /// Forbids these keys (numbers in the capture plan), because another rank can no longer replay
  /// them.
  void retire(std::span<const int32_t> keys);
  [[nodiscard]] parallel::Communicator* ranks() const noexcept { return options_.ranks; }
  [[nodiscard]] Execution& execution() const noexcept { return *execution_; }

  /// Runs a batch that is padded to the shape of `decision`. `run_as` is either the mode of the
  /// decision, or NONE to launch the same kernels eagerly. A replay must give the same bits as the
  /// eager run. `cascade`: the facts of a batch with cascade attention; nullptr: without.
  const StepResult& run(std::span<const BatchRequest> requests,
                        const cudagraph::Decision& decision,
                        cudagraph::CudagraphRuntimeMode run_as,
                        const TokensOnDevice& tokens = {},
                        const cudagraph::BatchFacts* cascade = nullptr);

  /// Copies one row of logits to the host. The span is valid until the next step. \pre row <
  /// result.num_logits
  [[nodiscard]] std::span<const float> logits_row(const StepResult& result, int32_t row);

  [[nodiscard]] const cudagraph::CudagraphDispatcher& dispatcher() const noexcept {
    return dispatcher_;
  }
  [[nodiscard]] const cudagraph::CudagraphWrapper& full_wrapper() const noexcept { return full_; }
  [[nodiscard]] const Forward& forward() const noexcept { return *forward_; }
  /// PIECEWISE graphs of all forwards.
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept;
  [[nodiscard]] const kv_cache::KvCacheTensors& kv_cache() const noexcept { return kv_cache_; }
  [[nodiscard]] const kv_cache::StateCacheTensors& states() const noexcept { return states_; }
  [[nodiscard]] InputBatch& input_batch() noexcept { return batch_; }
  /// Of a draft head: memory for a row per token of a step, which the caller of execute() fills
  /// before. Padding tokens have rows too, whose content does not matter.
  [[nodiscard]] device::BufferView hidden_memory() const noexcept { return hidden_states_.view(); }
  /// Returns when the device has finished all launched work. \throws device::DeviceError, which is
  /// sticky if a rank was lost meanwhile
  void wait();
  /// Lets the other ranks end. \pre this is rank 0, and no step follows
  void stop_other_ranks() noexcept;
  /// The times of prepare, launch and wait in the last execute(). Callers that use the logits add
  /// their own times.
  [[nodiscard]] StepSpans& spans() noexcept { return spans_; }
  /// The result of the last execute(). Its decision is set even if execute() threw.
  [[nodiscard]] const StepResult& last_result() const noexcept { return result_; }
  /// Launches of the last step, and of the last step with a uniform decode batch.
  [[nodiscard]] StepLaunches last_launches() const noexcept { return last_launches_; }
  [[nodiscard]] StepLaunches last_decode_launches() const noexcept { return last_decode_launches_; }
  [[nodiscard]] size_t graph_bytes() const noexcept;
  /// Requests of the smallest steps that may use cascade attention; 0: no step does.
  [[nodiscard]] int32_t least_cascade_reqs() const noexcept {
    return cascade_ == nullptr ? 0 : attention::kFewestCascadeReqs;
  }
  /// Steps that used cascade attention.
  [[nodiscard]] uint64_t num_cascade_steps() const noexcept { return num_cascade_steps_; }
  [[nodiscard]] std::span<const RetiredGraph> retired_graphs() const noexcept { return retired_; }

 private:
  [[nodiscard]] StagedShape staged_shape(const cudagraph::Decision& decision,
                                         int32_t num_reqs,
                                         int32_t num_logits) const;
  void run_staged(const cudagraph::BatchDescriptor& descriptor,
                  cudagraph::CudagraphRuntimeMode run_as,
                  const cudagraph::BatchFacts* cascade = nullptr);
  /// Agrees with the other engines and announces the step to the other ranks. nullopt: no engine
  /// has work.
  std::optional<cudagraph::BatchFacts> agree(std::span<const BatchRequest> requests,
                                             const cudagraph::BatchFacts& facts);
  /// Retires a graph that cannot be replayed. The caller then runs the step eagerly. `before`: the
  /// launches before the attempt. \throws Error if the attempt had begun and cannot be repeated
  void retire_stale(const cudagraph::Decision& decision,
                    const std::string& reason,
                    StepLaunches before);
  const StepResult& execute_here(std::span<const BatchRequest> requests,
                                 const cudagraph::BatchFacts& facts,
                                 const TokensOnDevice& tokens);
  [[nodiscard]] cudagraph::CaptureCallbacks capture_callbacks(
      std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)> on_progress);
  /// Captures the best key for this batch if it has no graph yet.
  void capture_before_step(const cudagraph::BatchFacts& facts);
  void dummy_run(const cudagraph::DummyRun& run);
  /// Runs the encoder for each request whose first step this is, eagerly and one after the other.
  void encode_texts(std::span<const BatchRequest> requests);
  /// Copies cached states to the slots of requests that begin after a cached prefix.
  void restore_states(std::span<const BatchRequest> requests);
  /// Copies states after the step, for requests that may begin there later.
  void save_states(std::span<const BatchRequest> requests);
  /// Gives the adapters of the batch slots, and their tokens the numbers of these slots.
  void stage_adapters(std::span<const BatchRequest> requests, int32_t num_tokens);
  [[nodiscard]] attention::LayerCaches caches() const noexcept {
    return {.kv_cache = &kv_cache_,
            .states = &states_,
            .counters = options_.expert_counts == nullptr ? std::span<const Tensor>()
                                                          : options_.expert_counts->tensors()};
  }
  [[nodiscard]] StepLaunches launches_so_far() const noexcept;
  /// The inputs of the staged step.
  [[nodiscard]] std::span<const Tensor> gather_inputs();
  [[nodiscard]] Tensor hidden_states();  // of the staged step
  [[nodiscard]] Forward& forward_for(const cudagraph::BatchDescriptor& descriptor) noexcept;

  Execution* execution_;
  models::CausalLM* model_;
  const models::Parameters* parameters_;
  ModelRunnerOptions options_;
  kv_cache::KvCacheTensors kv_cache_;
  kv_cache::StateCacheTensors states_;
  InputBatch batch_;
  std::optional<InputBatch> encoder_batch_;  // one text; nothing: the model has no encoder
  device::Buffer hidden_states_;  // of a draft head: what its steps read of the main model
  std::unique_ptr<attention::AttentionBackend> attention_;
  std::unique_ptr<attention::CascadeAttention> cascade_;    // nullptr: no step uses it
  std::unique_ptr<attention::AttentionBackend> recurrent_;  // nullptr: attention_ serves all layers
  cudagraph::CudagraphDispatcher dispatcher_;
  cudagraph::CapturePermission permission_;
  std::unique_ptr<Forward> forward_;  // owned here; full_ calls it
  // For batches with adapters. nullptr: forward_ runs the model's own code, which serves both
  // kinds.
  std::unique_ptr<Forward> adapter_forward_;
  cudagraph::CudagraphWrapper full_;
  std::vector<device::BufferView> bindings_;  // memory that graphs refer to, besides their inputs
  size_t plan_binding_ = 0;                   // index in bindings_ of the attention plan's memory
  attention::AttentionMetadata metadata_;
  ForwardInputs inputs_;
  std::vector<lora::AdapterTokens> adapter_tokens_;  // of the step's requests
  std::vector<Tensor> outputs_;
  StepResult result_;
  StepSpans spans_;
  StepLaunches last_launches_;
  StepLaunches last_decode_launches_;
  std::vector<float> host_logits_;  // used only if the host cannot read the device's memory
  std::vector<RetiredGraph> retired_;
  std::optional<StepLeader> leader_;  // of rank 0, if there are others
  uint64_t num_rank_steps_ = 0;
  uint64_t num_cascade_steps_ = 0;
  std::optional<PlannedKeys> planned_keys_;  // if there are other ranks
  int32_t stale_key_ = -1;                   // of this rank; the other ranks do not know it yet
  std::vector<int32_t> to_retire_;           // before the next step that rank 0 announces
};

}  // namespace reprise::engine
