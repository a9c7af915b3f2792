#include "reprise/runner/model_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/runner/model_runner.h"
#include "reprise/structured_output/token_constraint.h"

namespace reprise::engine {
namespace {

using sampling::SamplingStatus;
using Turn = structured_output::TokenConstraint::Turn;

/// A lower rank is sampled earlier. Answers whose constraint was cheap last time come first. Each
/// step of waiting halves the rank of an expensive one.
std::chrono::nanoseconds rank_of(const Turn& turn) {
  return turn.last_cost / (int64_t{1} << std::min(turn.num_steps_waited, 40));
}

LogitsUse logits_use(const ScheduledRequest& entry) {
  const Request& request = *entry.request;
  LogitsUse use{.ignores_eos = request.params().ignore_eos, .placeholder = entry.placeholder};
  if (entry.num_prompt_logits > 0) {
    const int first = entry.num_computed_tokens + entry.first_prompt_logit + 1;
    use.next_prompt_token_ids = request.prompt_token_ids().subspan(
        static_cast<size_t>(first), static_cast<size_t>(entry.num_prompt_logits));
    use.num_top_logprobs = *request.params().prompt_logprobs;
  }
  if (entry.samples) {
    use.sampling = entry.sampling_input({});
    use.constraint = request.constraint();
  }
  return use;
}

}  // namespace

ModelStep::ModelStep(const SchedulerConfig& config) {
  const auto max_num_seqs = static_cast<size_t>(config.max_num_seqs);
  requests.reserve(max_num_seqs);
  uses.reserve(max_num_seqs);
  sampled.resize(max_num_seqs);
}

void ModelStep::prepare(const SchedulerOutput& output, const SchedulerConfig& config) {
  scheduled = &output;
  requests.clear();
  uses.clear();
  prompt_logprobs.clear();
  error = nullptr;
  num_sampled_on_device = 0;
  num_postponed = 0;
  for (const ScheduledRequest& entry : output.scheduled) {
    requests.push_back({.token_ids = entry.token_ids(),
                        .num_computed_tokens = entry.num_computed_tokens,
                        .block_ids = entry.request->block_ids(),
                        .samples = entry.samples,
                        .first_prompt_logit = entry.first_prompt_logit,
                        .num_prompt_logits = entry.num_prompt_logits});
    uses.push_back(logits_use(entry));
  }
  facts = {.num_tokens = output.total_num_scheduled_tokens,
           .num_reqs = output.num_reqs(),
           .uniform = cudagraph::is_uniform_decode(output.max_query_len,
                                                   config.decode_query_len,
                                                   output.total_num_scheduled_tokens,
                                                   output.num_reqs(),
                                                   output.any_prefill),
           .num_logits = output.num_logits};
}

StepComputer::StepComputer(ModelRunner& runner,
                           const SchedulerConfig& config,
                           kernels::RowSampler* row_sampler)
    : runner_(&runner),
      eos_token_ids_(config.eos_token_ids),
      constraint_time_per_step_(config.constraint_time_per_step),
      sampler_(config.vocab_size),
      device_sampling_(row_sampler) {
  is_on_device_.reserve(static_cast<size_t>(config.max_num_seqs));
  constrained_.reserve(static_cast<size_t>(config.max_num_seqs));
}

void StepComputer::compute(ModelStep& step) noexcept {
  StepSpans& spans = runner_->spans();
  try {
    const StepResult& result = runner_->execute(step.requests, step.facts);
    sample_on_device(step, result);
    if (!device_sampling_.empty()) {
      const PhaseTimer timer(spans, StepPhase::wait);
      device_sampling_.wait();
    } else if (result.num_logits > 0) {
      runner_->wait();
    }
    const PhaseTimer timer(spans, StepPhase::sample);
    use_logits(step, result);
  } catch (...) {
    step.error = std::current_exception();
  }
  step.decision = runner_->last_result().decision;
  step.retired = runner_->last_result().retired;
  step.spans.add(spans);
}

void StepComputer::sample_on_device(const ModelStep& step, const StepResult& result) {
  is_on_device_.clear();
  device_sampling_.begin();
  const TimePoint begin = std::chrono::steady_clock::now();
  int32_t row = 0;
  for (const LogitsUse& use : step.uses) {
    row += static_cast<int32_t>(use.next_prompt_token_ids.size());
    if (use.placeholder == nullptr) continue;
    const auto has_constraint = DeviceSampling::HasConstraint{use.constraint != nullptr};
    is_on_device_.push_back(device_sampling_.add(use.sampling, has_constraint, row++));
  }
  if (device_sampling_.empty()) return;
  device_sampling_.launch(result.logits);
  runner_->spans().add(
      {.phase = StepPhase::sample, .begin = begin, .end = std::chrono::steady_clock::now()});
}

void StepComputer::use_logits(ModelStep& step, const StepResult& result) {
  int32_t row = 0;
  size_t num_sampled = 0;
  constrained_.clear();
  for (const LogitsUse& use : step.uses) {
    for (const int32_t next : use.next_prompt_token_ids) {
      step.prompt_logprobs.push_back(sampling::position_logprobs(
          runner_->logits_row(result, row++), next, use.num_top_logprobs));
    }
    if (use.placeholder == nullptr) continue;
    sampling::SampledToken& sampled = step.sampled[num_sampled];
    sampled.problem.clear();
    if (is_on_device_[num_sampled++]) {
      device_sampling_.take(sampled);
      ++step.num_sampled_on_device;
      ++row;
    } else if (use.constraint != nullptr) {
      constrained_.push_back(
          {.use = &use, .logits = runner_->logits_row(result, row++), .sampled = &sampled});
      continue;
    } else {
      sampling::SamplingInput input = use.sampling;
      input.logits = runner_->logits_row(result, row++);
      sampler_.sample(input, sampled);
    }
    if (sampled.status == SamplingStatus::ok) *use.placeholder = sampled.token_id;
  }
  sample_constrained(step);
}

/// Samples the constrained rows, until the time for constraints in this step is used up. The order
/// does not change any token, because each row has its own random numbers.
void StepComputer::sample_constrained(ModelStep& step) {
  std::sort(constrained_.begin(), constrained_.end(), [](const auto& a, const auto& b) {
    return rank_of(a.use->constraint->turn) < rank_of(b.use->constraint->turn);
  });
  const TimePoint begin = std::chrono::steady_clock::now();
  TimePoint now = begin;
  for (const ConstrainedRow& row : constrained_) {
    Turn& turn = row.use->constraint->turn;
    row.sampled->status = SamplingStatus::postponed;
    // The previous step postponed the token that this step's logits should follow, so these logits
    // are useless and the request is postponed again.
    const bool is_behind =
        std::cmp_not_equal(turn.num_accepted, row.use->sampling.output_token_ids.size());
    if (is_behind || now - begin > constraint_time_per_step_) {
      turn.num_steps_waited += static_cast<int>(!is_behind);
      ++step.num_postponed;
      continue;
    }
    sample_within(row);
    const TimePoint before = std::exchange(now, std::chrono::steady_clock::now());
    turn.last_cost = now - before;
    turn.num_steps_waited = 0;
    if (row.sampled->status == SamplingStatus::ok) *row.use->placeholder = row.sampled->token_id;
  }
}

/// Samples one row. If its constraint fails, only that request ends; the other requests of the step
/// go on.
void StepComputer::sample_within(const ConstrainedRow& row) {
  sampling::SampledToken& sampled = *row.sampled;
  const auto end = [&sampled](SamplingStatus status, const std::exception& error) {
    sampled.status = status;
    sampled.token_id = -1;
    sampled.problem = error.what();
  };
  try {
    choose_within(row);
  } catch (const InvalidArgument& error) {
    end(SamplingStatus::refused, error);
  } catch (const std::exception& error) {
    end(SamplingStatus::failed, error);
  }
}

void StepComputer::choose_within(const ConstrainedRow& row) {
  structured_output::TokenConstraint& constraint = *row.use->constraint;
  sampling::SampledToken& sampled = *row.sampled;
  sampling::SamplingInput input = row.use->sampling;
  input.logits = row.logits;
  input.allowed_mask = constraint.allowed_tokens();
  sampler_.sample(input, sampled);
  if (sampled.status == SamplingStatus::no_allowed_token) {
    // The constraint allows only an end of the answer, but min_tokens or another parameter forbids
    // the end-of-text token: then the answer ends here. If the answer was already complete in the
    // previous step, the constraint allows no token at all, and this sample is dropped.
    sampled.ends_answer =
        std::any_of(eos_token_ids_.begin(), eos_token_ids_.end(), [&input](int32_t id) {
          return structured_output::contains(input.allowed_mask, id);
        });
  }
  if (sampled.status != SamplingStatus::ok) return;
  if (!constraint.accept(sampled.token_id)) {
    throw Error(fmt::format("the constraint on the answer allows token {} and refuses it",
                            sampled.token_id));
  }
  ++constraint.turn.num_accepted;
  sampled.ends_answer = !is_end(*row.use, sampled.token_id) && constraint.is_complete();
}

/// An end-of-text token ends the request without adding text.
bool StepComputer::is_end(const LogitsUse& use, int32_t token_id) const {
  return !use.ignores_eos &&
         std::find(eos_token_ids_.begin(), eos_token_ids_.end(), token_id) != eos_token_ids_.end();
}

}  // namespace reprise::engine
