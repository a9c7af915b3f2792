#include "reprise/runner/model_step.h"

#include <exception>

#include "reprise/runner/model_runner.h"

namespace reprise::engine {
namespace {

LogitsUse logits_use(const ScheduledRequest& entry) {
  Request& request = *entry.request;
  LogitsUse use{.ignores_eos = request.params().ignore_eos, .placeholder = entry.placeholder};
  if (entry.num_prompt_logits > 0) {
    const int first = entry.num_computed_tokens + entry.first_prompt_logit + 1;
    use.next_prompt_token_ids = request.prompt_token_ids().subspan(
        static_cast<size_t>(first), static_cast<size_t>(entry.num_prompt_logits));
    use.num_top_logprobs = *request.params().prompt_logprobs;
  }
  if (entry.samples) {
    use.sampling = entry.sampling_input({});
    if (request.constraint()) use.constraint = &request.constraint();
    use.held_token = &request.held_token();
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
      sampler_(config.vocab_size),
      device_sampling_(row_sampler),
      constrained_sampling_(sampler_, config) {
  is_on_device_.reserve(static_cast<size_t>(config.max_num_seqs));
}

void StepComputer::compute(ModelStep& step) noexcept {
  StepSpans& spans = runner_->spans();
  try {
    constrained_sampling_.begin(step.uses);
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
  size_t num_constrained = 0;
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
      constrained_sampling_.add(
          {.use = &use, .logits = runner_->logits_row(result, row++), .sampled = &sampled});
      ++num_constrained;
      continue;
    } else {
      sampling::SamplingInput input = use.sampling;
      input.logits = runner_->logits_row(result, row++);
      sampler_.sample(input, sampled);
    }
    if (sampled.status == sampling::SamplingStatus::ok) *use.placeholder = sampled.token_id;
  }
  using Others = ConstrainedSampling::Others;
  step.num_postponed =
      constrained_sampling_.sample(num_constrained < step.uses.size() ? Others::yes : Others::no);
}

}  // namespace reprise::engine
