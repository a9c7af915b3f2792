#pragma once

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
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

class ModelRunner;

/// The use of a step's logits for one request. Borrows from the request: data that does not change
/// while the step is in flight, or that belongs to the thread that computes steps.
struct LogitsUse {
  // First the rows for log-probabilities of the prompt, one row of logits each.
  std::span<const int32_t> next_prompt_token_ids;  // for each row, the token after it
  int num_top_logprobs = 0;
  // After these rows, the row that samples the next token, if `placeholder` is set.
  sampling::SamplingInput sampling;  // without logits
  /// The request's own pointer. The constraint itself changes while the step is computed.
  const std::shared_ptr<structured_output::TokenConstraint>* constraint = nullptr;
  sampling::SampledToken* held_token = nullptr;  // Request::held_token
  bool ignores_eos = false;
  int32_t* placeholder = nullptr;  // ScheduledRequest::placeholder
};

/// One step: the scheduled requests in the form that the model and the sampler take, and the
/// results. Reused from step to step; in the steady state only log-probabilities allocate memory.
struct ModelStep {
  explicit ModelStep(const SchedulerConfig& config);
  /// Takes over the scheduled batch. \pre the scheduler keeps `output` unchanged until the results
  /// are applied
  void prepare(const SchedulerOutput& output, const SchedulerConfig& config);

  const SchedulerOutput* scheduled = nullptr;  // owned by the scheduler
  cudagraph::BatchFacts facts;
  std::vector<BatchRequest> requests;  // in the order of `scheduled`
  std::vector<LogitsUse> uses;         // in the order of `scheduled`
  TimePoint began;                     // when the scheduler began to schedule the step

  // Results.
  std::vector<sampling::SampledToken> sampled;  // one per sampling request, then unused entries
  int num_sampled_on_device = 0;                // how many of `sampled` the device sampled
  int num_postponed = 0;                        // how many of `sampled` have no token yet
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  cudagraph::Decision decision;                // see StepResult::decision
  std::optional<cudagraph::Decision> retired;  // see StepResult::retired
  StepSpans spans;                             // since `began`
  std::exception_ptr error;                    // the reason why there are no results
};

/// Computes steps: the model's forward, and the sampling of its logits. A sampled token reaches the
/// next step through its placeholder, so steps are computed in their order.
/// Borrows the runner. One thread at a time, not necessarily the thread that schedules.
class StepComputer {
 public:
  /// `row_sampler`: see EngineCoreOptions::row_sampler.
  StepComputer(ModelRunner& runner,
               const SchedulerConfig& config,
               kernels::RowSampler* row_sampler);

  /// Computes one step. Stores an exception as the step's error.
  void compute(ModelStep& step) noexcept;

 private:
  void sample_on_device(const ModelStep& step, const StepResult& result);
  void use_logits(ModelStep& step, const StepResult& result);

  ModelRunner* runner_;
  sampling::Sampler sampler_;
  DeviceSampling device_sampling_;
  ConstrainedSampling constrained_sampling_;
  std::vector<bool> is_on_device_;  // one per sampling request of the step, in batch order
};

}  // namespace reprise::engine
