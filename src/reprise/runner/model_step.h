#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/device_sampling.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/step_result.h"
#include "reprise/runner/step_times.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

class ModelRunner;

/// What one request wants of a step's logits. Borrows from the request, but reads nothing there
/// that changes while the step is under way.
struct LogitsUse {
  // Log-probabilities of the prompt, one row of logits each.
  std::span<const int32_t> next_prompt_token_ids;  // after each of the rows
  int num_top_logprobs = 0;
  // Then the row that samples, if `placeholder` is set.
  sampling::SamplingInput sampling;  // without logits
  structured_output::TokenConstraint* constraint = nullptr;
  bool ignores_eos = false;
  int32_t* placeholder = nullptr;  // ScheduledRequest::placeholder
};

/// One step: what was scheduled as the model and the sampler take it, and what came of it. Reused;
/// nothing of it allocates in the steady state, except log-probabilities.
struct ModelStep {
  explicit ModelStep(const SchedulerConfig& config);
  /// Takes over what was scheduled. \pre it stays the scheduler's until the results are applied
  void prepare(const SchedulerOutput& output, const SchedulerConfig& config);

  const SchedulerOutput* scheduled = nullptr;  // owned by the scheduler
  cudagraph::BatchFacts facts;
  std::vector<BatchRow> rows;   // as `scheduled`
  std::vector<LogitsUse> uses;  // as `scheduled`
  TimePoint began;              // to be scheduled

  // Results.
  std::vector<sampling::SampledToken> sampled;  // one per request that samples, then unused ones
  int num_sampled_on_device = 0;                // of these
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  cudagraph::Decision decision;                // as StepResult
  std::optional<cudagraph::Decision> retired;  // as StepResult
  StepSpans spans;                             // since it began
  std::exception_ptr error;                    // why there are no results
};

/// Computes steps: the model's forward, and the sampling of its logits. Between two calls that
/// follow on one another, sampled tokens go from one to the next through their placeholders.
/// Borrows the runner. One thread at a time, not necessarily the one that schedules.
class StepComputer {
 public:
  /// `row_sampler`: as EngineCoreOptions::row_sampler.
  StepComputer(ModelRunner& runner,
               const SchedulerConfig& config,
               kernels::RowSampler* row_sampler);

  /// What goes wrong is the step's error.
  void compute(ModelStep& step) noexcept;

 private:
  void sample_on_device(const ModelStep& step, const StepResult& result);
  void use_logits(ModelStep& step, const StepResult& result);
  void sample(const LogitsUse& use, std::span<const float> logits, sampling::SampledToken& sampled);
  void sample_within(const LogitsUse& use,
                     const sampling::SamplingInput& input,
                     sampling::SampledToken& sampled);

  ModelRunner* runner_;
  std::vector<int32_t> eos_token_ids_;
  sampling::Sampler sampler_;
  DeviceSampling device_sampling_;
  std::vector<bool> is_on_device_;  // of the step's sampling requests, in batch order
};

}  // namespace reprise::engine
