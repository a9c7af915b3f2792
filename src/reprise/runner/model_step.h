#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/constrained_sampling.h"
#include "reprise/runner/device_sampling.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/sampling_team.h"
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/scheduler.h"
#include "reprise/speculative/drafter.h"

namespace reprise::runner {

class ModelRunner;
struct TokensOnDevice;

/// The use of a step's logits for one request. Borrows from the request: data that does not change
/// while the step is in flight, or that belongs to the thread that computes steps.
///
/// The request's first rows of logits give the log-probabilities of its prompt. Then follows one
/// row per placeholder, from which tokens are sampled. All placeholders but the last hold drafts.
struct LogitsUse {
  const scheduler::StepEntry* entry = nullptr;  // owned by the scheduler
  /// The last token of the request was not known when the step was prepared: a step in flight
  /// samples it.
  bool is_behind_a_step = false;
  /// For each row of the prompt, the prompt token after it.
  std::span<const int32_t> next_prompt_token_ids;
  sampling::SamplingInput sampling;  // of the first placeholder's row, without logits
  // The first rows of `placeholders`, this many, have suppressed tokens.
  size_t num_suppressed_rows = 0;

  [[nodiscard]] std::span<int32_t> placeholders() const noexcept { return entry->placeholders; }
  [[nodiscard]] bool samples() const noexcept { return entry->samples; }
  /// nullptr: the answer has no constraint, or this step samples none of its tokens. The constraint
  /// object changes while the step is computed.
  [[nodiscard]] const std::shared_ptr<structured_output::TokenConstraint>* constraint()
      const noexcept {
    const auto& constraint = entry->request->constraint();
    return entry->samples && constraint != nullptr ? &constraint : nullptr;
  }
  [[nodiscard]] sampling::SampledToken& held_token() const noexcept {
    return entry->request->held_token();
  }
  /// The sampler's input, without logits, for a row; all drafts before the row are taken as
  /// accepted.
  [[nodiscard]] sampling::SamplingInput sampling_at(size_t row) const;
};

/// One step: the scheduled requests, the use of their logits, and the results. ModelSteps are
/// reused; after warm-up only log-probabilities allocate memory.
struct ModelStep {
  explicit ModelStep(const scheduler::SchedulerConfig& config);
  /// Fills in the scheduled batch. \pre the scheduler keeps `output` unchanged until the results of
  /// this step are applied
  void prepare(const scheduler::SchedulerOutput& output, const scheduler::SchedulerConfig& config);

  /// A token of this step that the previous step samples, if that step is still in flight.
  struct LastToken {
    const scheduler::Request* request = nullptr;
    int32_t index = 0;  // among the step's tokens
  };

  const scheduler::SchedulerOutput* scheduled = nullptr;  // owned by the scheduler
  cudagraph::BatchFacts facts;
  std::vector<LogitsUse> uses;         // in the order of `scheduled`
  std::vector<LastToken> last_tokens;  // in the order of `scheduled`
  bool has_constraints = false;
  TimePoint began;  // when scheduling of the step began

  // The state of the computation.
  std::vector<bool> is_on_device;  // one per sampled row: whether the device samples it
  bool is_finished = false;        // the results below are there

  // Results: one entry per sampled row of logits; further entries are unused.
  std::vector<sampling::SampledToken> sampled;
  int num_sampled_on_device = 0;  // how many entries of `sampled` the device has written
  int num_postponed = 0;          // how many requests get no token in this step
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  // For a pooling model: one vector per sampling request.
  std::vector<std::vector<float>> pooled;
  cudagraph::Decision decision;                // see StepResult::decision
  std::optional<cudagraph::Decision> retired;  // see StepResult::retired
  StepSpans spans;                             // of this step, from `began` on
  std::exception_ptr error;                    // the reason if the step has no results
};

/// Computes steps: runs the model's forward and samples from its logits. The next step reads a
/// sampled token from its placeholder, so steps must be computed in the order in which they were
/// scheduled. Borrows the runner. Only one thread at a time may use it; it need not be the thread
/// that schedules.
///
/// A device that samples can get a step before the step ahead of it is finished: the tokens in
/// between stay on the device. Then launch() and finish() are called instead of compute(), and
/// can_launch() tells whether the step ahead must be finished first.
class StepComputer {
 public:
  /// `row_sampler`, `drafter`: see EngineCoreOptions.
  StepComputer(ModelRunner& runner,
               const scheduler::SchedulerConfig& config,
               kernels::RowSampler* row_sampler,
               speculative::Drafter* drafter = nullptr);

  /// See ConstrainedSampling::watch_arrivals().
  void watch_arrivals(const std::atomic<uint64_t>& arrivals) {
    constrained_sampling_.watch_arrivals(arrivals);
  }

  /// Computes one step. An exception is stored as the step's error.
  void compute(ModelStep& step) noexcept;

  /// Whether `step` may be launched before `ahead` is finished. If not, the host must first choose
  /// or check a token.
  [[nodiscard]] bool can_launch(const ModelStep& step, const ModelStep& ahead) const;
  /// Submits the work of a step. `ahead` is the step launched before it, if that has not been
  /// applied to the requests yet; otherwise nullptr. \pre ahead is finished, or can_launch()
  void launch(ModelStep& step, const ModelStep* ahead) noexcept;
  /// Waits for the device and stores the results. Does nothing if the step is finished. Steps are
  /// finished in the order of their launches.
  void finish(ModelStep& step) noexcept;

 private:
  [[nodiscard]] TokensOnDevice find_tokens(const ModelStep& step, const ModelStep* ahead);
  void import_prompts(const ModelStep& step);
  void export_prompts(const ModelStep& step);
  void sample_on_device(ModelStep& step, const StepResult& result);
  void finish_sampling(ModelStep& step);
  void take_spans(ModelStep& step);
  /// What the rows of logits of one request are used for: its log-probabilities, or its tokens.
  struct Job {
    const LogitsUse* use = nullptr;
    int32_t first_row = 0;
    std::span<sampling::PositionLogprobs> prompt_logprobs;  // one per row
    std::span<sampling::SampledToken> sampled;              // one per row
    size_t first_on_device = 0;  // index of the first sampled row in is_on_device
  };

  void use_logits(ModelStep& step, const StepResult& result);
  void run_job(const ModelStep& step,
               const Job& job,
               const StepResult& result,
               sampling::Sampler& sampler);
  void take_vectors(ModelStep& step, const StepResult& result);

  ModelRunner* runner_;
  speculative::Drafter* follower_;  // the drafter that follows steps; nullptr: there is none
  bool is_pooling_;
  SamplingTeam team_;
  DeviceSampling device_sampling_;
  ConstrainedSampling constrained_sampling_;
  std::vector<kernels::TokenPlace> token_places_;  // of the step that is launched
  std::vector<Job> jobs_;                          // of the step whose logits are used
};

}  // namespace reprise::runner
