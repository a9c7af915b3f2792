#include "reprise/runner/model_step.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/runner/followed_step.h"
#include "reprise/runner/model_runner.h"
#include "reprise/speculative/draft_verification.h"

namespace reprise::runner {
namespace {

LogitsUse logits_use(const scheduler::StepEntry& entry) {
  const scheduler::Request& request = *entry.request;
  LogitsUse use{.entry = &entry, .is_behind_a_step = entry.end() > request.num_tokens()};
  if (entry.num_prompt_logits > 0) {
    const int first = entry.num_computed_tokens + entry.first_prompt_logit + 1;
    use.next_prompt_token_ids = request.prompt_token_ids().subspan(
        static_cast<size_t>(first), static_cast<size_t>(entry.num_prompt_logits));
  }
  if (entry.samples) {
    use.sampling = entry.sampling_input({});
    const auto num_output_tokens = static_cast<int>(use.sampling.output_token_ids.size());
    use.num_suppressed_rows =
        static_cast<size_t>(std::max(0, request.params().min_tokens - num_output_tokens));
  }
  return use;
}

cudagraph::BatchFacts batch_facts(const scheduler::SchedulerOutput& output,
                                  const scheduler::SchedulerConfig& config) {
  const int num_tokens = output.total_num_scheduled_tokens + output.num_padding_tokens;
  // A step with fewer drafts than usual, or without any, is a uniform decode batch too.
  const int longest = output.max_query_len;
  const bool has_graphs = longest == 1 || std::ranges::find(config.fewer_draft_widths, longest) !=
                                              config.fewer_draft_widths.end();
  const int query_len = has_graphs ? longest : config.decode_query_len;
  const bool is_uniform = cudagraph::is_uniform_decode(
      output.max_query_len, query_len, num_tokens, output.num_reqs(), output.any_prefill);
  return {.num_tokens = num_tokens,
          .num_reqs = output.num_reqs(),
          .uniform = is_uniform,
          .query_len = query_len,
          .ragged_drafts = config.decode_query_len > 1 && !is_uniform && !output.any_prefill,
          .num_active_loras = output.num_active_loras,
          .common_prefix_len = output.common_prefix_len,
          .num_logits = output.num_logits};
}

}  // namespace

sampling::SamplingInput LogitsUse::sampling_at(size_t row) const {
  sampling::SamplingInput input = sampling;
  // The accepted drafts follow the output tokens in memory.
  const std::span<const int32_t> before = sampling.output_token_ids;
  input.output_token_ids = {before.data(), before.size() + row};
  if (row >= num_suppressed_rows) input.suppressed_token_ids = {};
  return input;
}

ModelStep::ModelStep(const scheduler::SchedulerConfig& config) {
  const auto max_num_seqs = static_cast<size_t>(config.max_num_seqs);
  uses.reserve(max_num_seqs);
  last_tokens.reserve(max_num_seqs);
  sampled.resize(max_num_seqs * static_cast<size_t>(config.decode_query_len));
  is_on_device.reserve(sampled.size());
}

void ModelStep::prepare(const scheduler::SchedulerOutput& output,
                        const scheduler::SchedulerConfig& config) {
  scheduled = &output;
  uses.clear();
  prompt_logprobs.clear();
  pooled.clear();
  error = nullptr;
  num_sampled_on_device = 0;
  num_postponed = 0;
  last_tokens.clear();
  has_constraints = false;
  is_on_device.clear();
  is_finished = false;
  int32_t num_tokens = 0;
  for (const scheduler::StepEntry& entry : output.scheduled) {
    if (entry.end() > entry.request->num_tokens()) {
      last_tokens.push_back({entry.request, num_tokens + entry.num_tokens() - 1});
    }
    num_tokens += entry.query_len();
    uses.push_back(logits_use(entry));
    has_constraints = has_constraints || uses.back().constraint() != nullptr;
  }
  facts = batch_facts(output, config);
}

StepComputer::StepComputer(ModelRunner& runner,
                           const scheduler::SchedulerConfig& config,
                           kernels::RowSampler* row_sampler,
                           speculative::Drafter* drafter)
    : runner_(&runner),
      follower_(drafter != nullptr && drafter->follows_steps() ? drafter : nullptr),
      is_pooling_(config.is_pooling),
      team_(
          runner.execution().stream(), runner.execution().executor().kernels(), config.vocab_size),
      device_sampling_(row_sampler),
      constrained_sampling_(runner, team_.sampler(), config) {
  jobs_.reserve(static_cast<size_t>(config.max_num_seqs));
  token_places_.reserve(static_cast<size_t>(config.max_num_seqs));
}

void StepComputer::compute(ModelStep& step) noexcept {
  launch(step, nullptr);
  finish(step);
}

bool StepComputer::can_launch(const ModelStep& step, const ModelStep& ahead) const {
  if (ahead.is_finished) return true;
  const auto num_on_device = std::ranges::count(ahead.is_on_device, true);
  return !is_pooling_ && !ahead.has_constraints && !step.has_constraints &&
         num_on_device == ahead.scheduled->num_logits;
}

// All rows of the step ahead are on the device, one for each request that samples.
TokensOnDevice StepComputer::find_tokens(const ModelStep& step, const ModelStep* ahead) {
  token_places_.clear();
  if (ahead == nullptr || ahead->is_finished) return {};
  size_t next = 0;
  int32_t row = 0;
  const std::vector<scheduler::StepEntry>& entries = ahead->scheduled->scheduled;
  for (const ModelStep::LastToken& token : step.last_tokens) {
    // Both steps have their requests in nearly the same order, so the search begins after the last
    // match.
    for (size_t tried = 0; tried < entries.size() && entries[next].request != token.request;
         ++tried) {
      row += entries[next].samples ? 1 : 0;
      if (++next == entries.size()) next = 0, row = 0;
    }
    REPRISE_ASSERT(entries[next].request == token.request && entries[next].samples,
                   "token {} is sampled in no step",
                   token.index);
    token_places_.push_back({.index = token.index, .row = row});
  }
  return {.sampler = device_sampling_.sampler(), .places = token_places_};
}

void StepComputer::launch(ModelStep& step, const ModelStep* ahead) noexcept {
  try {
    constrained_sampling_.begin(step.uses);
    import_prompts(step);
    const StepResult& result =
        runner_->execute(step.scheduled->scheduled, step.facts, find_tokens(step, ahead));
    if (!is_pooling_) sample_on_device(step, result);
  } catch (...) {
    step.error = std::current_exception();
    step.is_finished = true;
  }
  step.decision = runner_->last_result().decision;
  step.retired = runner_->last_result().retired;
  take_spans(step);
}

void StepComputer::finish(ModelStep& step) noexcept {
  if (step.is_finished) return;
  try {
    finish_sampling(step);
  } catch (...) {
    step.error = std::current_exception();
  }
  step.is_finished = true;
  take_spans(step);
}

/// Copies prompts that other engines computed into the cache.
void StepComputer::import_prompts(const ModelStep& step) {
  const kv_cache::KvCacheTensors& cache = runner_->kv_cache();
  for (const scheduler::StepEntry& entry : step.scheduled->scheduled) {
    if (entry.first_imported_token < 0) continue;
    kv_cache::load_kv(*entry.request->kv_image(),
                      runner_->execution().stream(),
                      cache,
                      entry.block_ids,
                      entry.first_imported_token / cache.layout().block_size,
                      entry.num_computed_tokens);
  }
}

/// Copies the prompts that this step has completed out of the cache, for other engines.
void StepComputer::export_prompts(const ModelStep& step) {
  for (size_t i = 0; i < step.uses.size(); ++i) {
    const scheduler::StepEntry& entry = step.scheduled->scheduled[i];
    kv_cache::KvExport* const to = entry.request->kv_export();
    if (to == nullptr || !entry.samples || to->is_kept()) continue;
    to->save(runner_->execution().stream(),
             runner_->kv_cache(),
             entry.block_ids,
             step.uses[i].sampling.prompt_token_ids);
  }
}

void StepComputer::finish_sampling(ModelStep& step) {
  StepSpans& spans = runner_->spans();
  // If another step was launched in the meantime, this is the result of that step. Then the device
  // sampled all rows of this step.
  const StepResult& result = runner_->last_result();
  step.num_sampled_on_device = static_cast<int>(std::ranges::count(step.is_on_device, true));
  if (step.num_sampled_on_device > 0) {
    const PhaseTimer timer(spans, StepPhase::wait);
    runner_->wait_for([this] { device_sampling_.wait(); });
  } else if (step.scheduled->num_logits > 0) {
    runner_->wait();
  }
  {
    const PhaseTimer timer(spans, StepPhase::sample);
    if (is_pooling_) {
      take_vectors(step, result);
    } else {
      use_logits(step, result);
      export_prompts(step);
    }
  }
  if (follower_ == nullptr) return;
  // The time of all drafters counts as scheduling.
  const PhaseTimer timer(spans, StepPhase::schedule);
  follower_->follow({.step = step, .result = result});
}

void StepComputer::take_spans(ModelStep& step) {
  step.spans.add(runner_->spans());
  runner_->spans().clear();
}

void StepComputer::sample_on_device(ModelStep& step, const StepResult& result) {
  device_sampling_.begin();
  const TimePoint begin = std::chrono::steady_clock::now();
  int32_t row = 0;
  for (const LogitsUse& use : step.uses) {
    row += static_cast<int32_t>(use.next_prompt_token_ids.size());
    const size_t num_rows = use.placeholders().size();
    for (size_t i = 0; i < num_rows; ++i) {
      step.is_on_device.push_back(
          device_sampling_.add({.input = use.sampling_at(i),
                                .request = use.entry->request->id(),
                                .logits_row = row++,
                                .has_constraint = use.constraint() != nullptr,
                                .is_alone = num_rows == 1,
                                .is_known = !use.is_behind_a_step}));
    }
  }
  if (device_sampling_.empty()) return;
  device_sampling_.launch(result.logits);
  runner_->spans().add(
      {.phase = StepPhase::sample, .begin = begin, .end = std::chrono::steady_clock::now()});
}

// The vector of a prompt takes the place of the token that ends the request.
void StepComputer::take_vectors(ModelStep& step, const StepResult& result) {
  int32_t row = 0;
  for (const LogitsUse& use : step.uses) {
    if (!use.samples()) continue;
    const std::span<const float> vector = runner_->logits_row(result, row);
    const bool is_finite =
        std::all_of(vector.begin(), vector.end(), [](float value) { return std::isfinite(value); });
    step.sampled[static_cast<size_t>(row++)] = {
        .token_id = 0,
        .status =
            is_finite ? sampling::SamplingStatus::ok : sampling::SamplingStatus::non_finite_logits};
    step.pooled.emplace_back(vector.begin(), vector.end());
    use.placeholders()[0] = 0;
  }
}

// Requests do not depend on each other, so the host may use the logits of several requests at the
// same time.
void StepComputer::use_logits(ModelStep& step, const StepResult& result) {
  size_t num_prompt_rows = 0;
  for (const LogitsUse& use : step.uses) num_prompt_rows += use.next_prompt_token_ids.size();
  step.prompt_logprobs.resize(num_prompt_rows);
  jobs_.clear();
  int32_t row = 0;
  size_t num_prompt_rows_used = 0;
  size_t num_sampled = 0;
  size_t num_constrained = 0;
  for (const LogitsUse& use : step.uses) {
    const size_t num_of_prompt = use.next_prompt_token_ids.size();
    Job job = {.use = &use,
               .first_row = row,
               .prompt_logprobs =
                   std::span(step.prompt_logprobs).subspan(num_prompt_rows_used, num_of_prompt),
               .sampled = std::span(step.sampled).subspan(num_sampled, use.placeholders().size()),
               .first_on_device = num_sampled};
    num_prompt_rows_used += num_of_prompt;
    num_sampled += use.placeholders().size();
    row += static_cast<int32_t>(num_of_prompt + use.placeholders().size());
    if (use.samples() && use.constraint() != nullptr) {
      constrained_sampling_.add({.use = &use,
                                 .first_row = row - static_cast<int32_t>(job.sampled.size()),
                                 .sampled = job.sampled});
      job.sampled = {};
      ++num_constrained;
    }
    if (!job.sampled.empty() || !job.prompt_logprobs.empty()) jobs_.push_back(job);
  }
  team_.run(jobs_.size(), [&](size_t i, sampling::Sampler& sampler) {
    run_job(step, jobs_[i], result, sampler);
  });
  using Others = ConstrainedSampling::Others;
  step.num_postponed = constrained_sampling_.sample(
      result, num_constrained < step.uses.size() ? Others::yes : Others::no);
}

/// Uses the rows of one request: samples those without a constraint, and verifies the drafts. If no
/// row is sampled on the device, several threads call run_job() for different jobs.
void StepComputer::run_job(const ModelStep& step,
                           const Job& job,
                           const StepResult& result,
                           sampling::Sampler& sampler) {
  const LogitsUse& use = *job.use;
  int32_t row = job.first_row;
  const int num_top_logprobs = use.entry->request->params().prompt_logprobs.value_or(0);
  for (size_t i = 0; i < job.prompt_logprobs.size(); ++i) {
    job.prompt_logprobs[i] = sampling::position_logprobs(
        runner_->logits_row(result, row++), use.next_prompt_token_ids[i], num_top_logprobs);
  }
  if (job.sampled.empty()) return;
  const auto is_on_device = [&](size_t i) { return step.is_on_device[job.first_on_device + i]; };
  const auto sample_row = [&](size_t i, sampling::SampledToken& token) {
    token.problem.clear();
    if (is_on_device(i)) {
      device_sampling_.take(token);
      return;
    }
    sampling::SamplingInput input = use.sampling_at(i);
    input.logits = runner_->logits_row(result, row + static_cast<int32_t>(i));
    sampler.sample(input, token);
  };
  const size_t num_done = speculative::verify_drafts(use.placeholders(), job.sampled, sample_row);
  // The device has also sampled the rows after a rejected draft.
  for (size_t i = num_done; i < job.sampled.size(); ++i) {
    if (is_on_device(i)) device_sampling_.skip();
  }
}

}  // namespace reprise::runner
