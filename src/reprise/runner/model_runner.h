#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/kernels/row_sampler.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/model_forwards.h"
#include "reprise/runner/model_runner_options.h"
#include "reprise/runner/ranked_steps.h"
#include "reprise/runner/step_attention.h"
#include "reprise/runner/step_inputs.h"
#include "reprise/runner/step_part.h"
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"

namespace reprise::runner {

class GraphInventory;
class GraphWatch;

/// With ModelRunnerOptions::strict_graphs: the step would not run, or did not run, with the graph
/// that the configuration promises. The engine continues. All ranks throw this error in the same
/// step.
class StrictGraphsError : public Error {
 public:
  using Error::Error;
};

/// Tokens of a step that only the device knows, because it sampled them in the step before.
/// Borrowed for the call.
struct TokensOnDevice {
  kernels::RowSampler* sampler = nullptr;  // has them
  // Index: a token's position in the batch, without padding.
  std::span<const kernels::TokenPlace> places;
};

/// Whether a step's work is executed, or recorded and dropped.
enum class StepWork : uint8_t { done, recorded };

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
  ~ModelRunner();

  /// How the model may be compiled.
  [[nodiscard]] CompileSupport compile_support() const { return forwards_.compile_support(); }
  [[nodiscard]] bool has_adapters() const noexcept { return options_.adapters != nullptr; }
  /// Eager runs before each capture.
  [[nodiscard]] int num_warmups() const noexcept { return options_.num_warmups; }
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
  /// Makes later steps of this kind run programs that are traced when a batch first needs them, one
  /// for each number of tokens: level 1 of a model without a program for all numbers. Captures are
  /// interrupted at `splitting_ops`.
  /// \pre no graph is captured yet
  void use_guards(program::SplittingOps splitting_ops, ForwardKind kind = ForwardKind::base);

  /// Runs a dummy batch eagerly, with the largest number of tokens, requests and rows of logits, so
  /// that the eager pool gets the memory of the largest step. Recording the batch is enough for
  /// that, and takes no time.
  /// \throws OutOfMemory, device::DeviceError; device::CaptureError if the batch cannot be recorded
  void run_largest_step(StepWork work = StepWork::done);
  /// Gives more blocks and state slots of the caches memory, up to those that have addresses.
  /// \throws OutOfMemory, device::DeviceError
  void grow_caches(int64_t num_blocks, int64_t num_slots);

  /// Captures all keys of the dispatcher's capture plan. `on_progress` may be empty. All ranks call
  /// capture() at the same time, and compare the results. With the rule measured, keys that do not
  /// pay are dropped first. `known`: the result of an earlier runner of this model, whose dropped
  /// keys are dropped again; nullptr: the keys are measured. \pre no step has run
  cudagraph::CaptureReport capture(
      const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress,
      const cudagraph::LadderReport* known = nullptr);
  /// Runs a dummy batch with these facts under `decision`, waits for it, and returns the
  /// microseconds without its staging. Writes to no block of the caches. \pre the key of the
  /// decision has a graph, or the decision is an eager step \throws device::DeviceError
  double time_dummy(const cudagraph::BatchFacts& batch, const cudagraph::Decision& decision);
  /// Runs or captures the dummy batch of a capture session. Its results have no meaning. \pre no
  /// step is in flight \throws as a step, and device::CaptureError
  void dummy_run(const cudagraph::DummyRun& run);
  /// Destroys the graph of a key. \pre the key cannot be dispatched
  void forget(const cudagraph::PlannedKey& key);

  /// Changes which graphs there are, between two steps. Graphs that the new plan does not need are
  /// destroyed, and so are all graphs if a higher level of verification or shadow checks that were
  /// off need every key to be captured again. Returns the number of keys whose graphs went.
  /// \pre no other ranks, no step in flight, the memory is awake
  /// \throws InvalidArgument as CudagraphDispatcher::replan(); then nothing has changed
  size_t change_graphs(GraphSettings settings);
  /// Captures and verifies the next key of the plan that has no graph. nullopt: every key has a
  /// graph or is taken out, or keys are captured lazily. \pre as change_graphs() \throws
  /// device::DeviceError
  std::optional<cudagraph::CaptureRecord> capture_next();
  /// Quarantines a key at a user's request, and destroys its graph. Returns false if the key is
  /// unknown or taken out already. \pre as change_graphs()
  bool quarantine_key(const cudagraph::PlannedKey& key);
  /// Destroys the graph of a key and plans the key again: capture_next() captures and verifies it
  /// before it is replayed. Returns false if the key is unknown. \pre as change_graphs()
  bool release_key(const cudagraph::PlannedKey& key);
  [[nodiscard]] cudagraph::VerifyGraphs verify_level() const noexcept;
  /// Captures a planned key again and records its nodes, for a profile. From then on inventory()
  /// returns them. Returns why the capture failed; empty: it succeeded. \pre as change_graphs()
  [[nodiscard]] std::string note_nodes(const cudagraph::PlannedKey& key);

  /// Runs one step: dispatches, stages and runs the batch. If memory that the chosen graph uses has
  /// moved, the graph is retired and the step runs eagerly instead. After warm-up a step neither
  /// allocates nor captures. Rank 0 makes the other ranks execute the same step. Some replays are
  /// compared with an eager run of the same step (see ShadowCheck); if they differ, the key is
  /// quarantined, and the result is that of the eager run.
  /// \throws device::DeviceError, which is sticky if a rank is lost; StrictGraphsError
  const StepResult& execute(std::span<const scheduler::StepEntry> requests,
                            const cudagraph::BatchFacts& facts,
                            const TokensOnDevice& tokens = {});
  /// Takes part in a step of the other engines with padding only. Returns false when none of them
  /// has work either. \pre ModelRunnerOptions::data_parallel \throws as execute()
  bool execute_idle();
  /// See RankedSteps::retire(). \pre there are other ranks
  void retire(std::span<const int32_t> keys) { ranked_->retire(keys); }
  [[nodiscard]] parallel::Communicator* ranks() const noexcept { return options_.ranks; }
  [[nodiscard]] Execution& execution() const noexcept { return *execution_; }

  /// Runs a batch that is padded to the shape of `decision`. `run_as` is either the mode of the
  /// decision, or NONE to launch the same kernels eagerly. A replay must give the same bits as the
  /// eager run. `cascade`: the facts of a batch with cascade attention; nullptr: without.
  const StepResult& run(std::span<const scheduler::StepEntry> requests,
                        const cudagraph::Decision& decision,
                        cudagraph::CudagraphRuntimeMode run_as,
                        const TokensOnDevice& tokens = {},
                        const cudagraph::BatchFacts* cascade = nullptr);

  /// Stages a batch and finds the first node of the decision's graph whose replay gives other bytes
  /// than the eager run. For diagnosis. \pre shadow()->is_on(), the key is captured, and there
  /// are no other ranks
  [[nodiscard]] WrongNode find_wrong_node(std::span<const scheduler::StepEntry> requests,
                                          const cudagraph::Decision& decision);

  /// Copies one row of logits to the host. The span is valid until the next step. \pre row <
  /// result.num_logits
  [[nodiscard]] std::span<const float> logits_row(const StepResult& result, int32_t row);

  [[nodiscard]] const cudagraph::CudagraphDispatcher& dispatcher() const noexcept {
    return dispatcher_;
  }
  [[nodiscard]] const cudagraph::CudagraphWrapper& full_wrapper() const noexcept {
    return forwards_.full_wrapper();
  }
  [[nodiscard]] const Forward& forward() const noexcept { return forwards_.base(); }
  /// PIECEWISE graphs of all forwards.
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept {
    return forwards_.num_piecewise_graphs();
  }
  [[nodiscard]] const kv_cache::KvCacheTensors& kv_cache() const noexcept { return kv_cache_; }
  [[nodiscard]] const kv_cache::StateCacheTensors& states() const noexcept { return states_; }
  [[nodiscard]] InputBatch& input_batch() noexcept { return batch_; }
  /// For a draft head: memory for one row per token of a step, which the caller of execute() fills
  /// first. Padding tokens have rows too, whose content does not matter.
  [[nodiscard]] device::BufferView hidden_memory() const noexcept {
    return inputs_.hidden_memory();
  }
  /// Returns when the device has finished all launched work. \throws device::DeviceError, which is
  /// sticky if a rank was lost meanwhile
  void wait();
  /// The same where `device` is the call that waits.
  void wait_for(const std::function<void()>& device);
  /// Lets the other ranks end. \pre this is rank 0, and no step follows
  void stop_other_ranks() noexcept;
  /// The times of prepare, launch and wait in the last execute(). Callers that use the logits add
  /// their own times.
  [[nodiscard]] StepSpans& spans() noexcept { return spans_; }
  /// The result of the last execute(). Its decision is set even if execute() threw.
  [[nodiscard]] const StepResult& last_result() const noexcept { return last_.result; }
  /// Launches of the last step, and of the last step with a uniform decode batch.
  [[nodiscard]] StepLaunches last_launches() const noexcept { return last_.launches; }
  [[nodiscard]] StepLaunches last_decode_launches() const noexcept { return last_.decode_launches; }
  [[nodiscard]] size_t graph_bytes() const noexcept { return forwards_.graph_bytes(); }
  /// The number of requests from which on steps may use cascade attention; 0: no step does.
  [[nodiscard]] int32_t least_cascade_reqs() const noexcept {
    return attention_.least_cascade_reqs();
  }
  /// Steps that used cascade attention.
  [[nodiscard]] uint64_t num_cascade_steps() const noexcept {
    return attention_.num_cascade_steps();
  }
  [[nodiscard]] std::span<const RetiredGraph> retired_graphs() const noexcept;
  /// Never nullptr. The pointer stays the same.
  [[nodiscard]] const ShadowCheck* shadow() const noexcept;
  /// The nodes of all captures. nullptr without ModelRunnerOptions::keep_inventory.
  [[nodiscard]] GraphInventory* inventory() noexcept;

 private:
  /// The results of the last step.
  struct LastStep {
    std::vector<Tensor> outputs;
    StepResult result;
    StepLaunches launches;
    StepLaunches decode_launches;    // launches of the last step with a uniform decode batch
    std::vector<float> host_logits;  // used only if the host cannot read the device's memory
  };

  [[nodiscard]] StagedShape staged_shape(const cudagraph::Decision& decision,
                                         int32_t num_reqs,
                                         int32_t num_logits) const;
  /// Stages the batch. Returns the number of rows of logits that it needs.
  int32_t stage(std::span<const scheduler::StepEntry> requests,
                const cudagraph::Decision& decision,
                const TokensOnDevice& tokens);
  void stage_dummy(const StagedShape& shape,
                   const cudagraph::BatchDescriptor& descriptor,
                   DummyTokens tokens = DummyTokens::of_requests);
  void run_staged(const cudagraph::BatchDescriptor& descriptor,
                  cudagraph::CudagraphRuntimeMode run_as,
                  const cudagraph::BatchFacts* cascade = nullptr,
                  StepWork work = StepWork::done);
  /// Completes a step whose forward was launched.
  const StepResult& finish(std::span<const scheduler::StepEntry> requests,
                           const cudagraph::Decision& decision,
                           int32_t num_logits);
  /// Replays a step, runs it again eagerly, and compares the two.
  const StepResult& run_shadowed(std::span<const scheduler::StepEntry> requests,
                                 const cudagraph::Decision& decision,
                                 const TokensOnDevice& tokens,
                                 const cudagraph::BatchFacts* cascade);
  /// Quarantines the key of the staged step. Afterwards the step's memory and results are those of
  /// an eager run.
  void quarantine(std::span<const scheduler::StepEntry> requests,
                  const cudagraph::Decision& decision,
                  const cudagraph::BatchFacts* cascade,
                  const StepDifference* difference);
  [[nodiscard]] WrongNode bisect_staged(const cudagraph::Decision& decision,
                                        const cudagraph::BatchFacts* cascade);
  void require_promise(const cudagraph::BatchFacts& facts,
                       const cudagraph::Decision& decision) const;
  void drop_outputs();
  /// Retires a graph that cannot be replayed. The caller then runs the step eagerly. `before`: the
  /// launches before the attempt. \throws Error if the replay had begun and the step cannot be
  /// repeated
  void retire_stale(const cudagraph::Decision& decision,
                    const std::string& reason,
                    StepLaunches before);
  const StepResult& execute_agreed(std::span<const scheduler::StepEntry> requests,
                                   const cudagraph::BatchFacts& facts,
                                   const TokensOnDevice& tokens);
  [[nodiscard]] cudagraph::CaptureCallbacks capture_callbacks(
      std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)> on_progress);
  cudagraph::CaptureRecord capture_between_steps(const cudagraph::PlannedKey& key);
  void verify_capture(const cudagraph::DummyRun& capture, cudagraph::CaptureRecord& record);
  [[nodiscard]] attention::LayerCaches caches() const noexcept {
    return {.kv_cache = &kv_cache_,
            .states = &states_,
            .counters = options_.expert_counts == nullptr ? std::span<const Tensor>()
                                                          : options_.expert_counts->tensors()};
  }
  [[nodiscard]] StepLaunches launches_so_far() const noexcept;

  Execution* execution_;
  ModelRunnerOptions options_;
  kv_cache::KvCacheTensors kv_cache_;
  kv_cache::StateCacheTensors states_;
  InputBatch batch_;
  StepInputs inputs_;
  StepAttention attention_;
  cudagraph::CudagraphDispatcher dispatcher_;
  ModelForwards forwards_;
  std::vector<std::unique_ptr<StepPart>> parts_;
  std::optional<RankedSteps> ranked_;  // if there are other ranks or engines
  std::unique_ptr<GraphWatch> watch_;
  LastStep last_;
  StepSpans spans_;
};

}  // namespace reprise::runner
