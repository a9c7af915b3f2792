#include "reprise/runner/constrained_sampling.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/runner/model_step.h"
#include "reprise/structured_output/constraint_worker.h"

namespace reprise::engine {
namespace {

using sampling::SamplingStatus;
using Turn = structured_output::TokenConstraint::Turn;

/// A step without other requests holds up only requests that have not arrived yet, so it waits so
/// many times longer, instead of computing its rows again.
constexpr int kPatienceWithoutOthers = 10;

bool is_ready(const Turn& turn) {
  return turn.state.load(std::memory_order_acquire) == Turn::State::ready;
}

/// One thread for expensive constraints, the others for quick ones. The engine needs the cores.
int num_constraint_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 8, 2, 4);
}

/// A constraint that cannot go on ends its own request and no other one of the step.
void end(sampling::SampledToken& sampled, const std::exception_ptr& problem) {
  sampled.token_id = -1;
  try {
    std::rethrow_exception(problem);
  } catch (const InvalidArgument& error) {
    sampled.status = SamplingStatus::refused;
    sampled.problem = error.what();
  } catch (const std::exception& error) {
    sampled.status = SamplingStatus::failed;
    sampled.problem = error.what();
  }
}

}  // namespace

ConstrainedSampling::ConstrainedSampling(sampling::Sampler& sampler, const SchedulerConfig& config)
    : sampler_(&sampler),
      eos_token_ids_(config.eos_token_ids),
      time_per_step_(config.constraint_time_per_step) {
  rows_.reserve(static_cast<size_t>(config.max_num_seqs));
}

ConstrainedSampling::~ConstrainedSampling() = default;

void ConstrainedSampling::begin(std::span<const LogitsUse> uses) {
  rows_.clear();
  for (const LogitsUse& use : uses) {
    if (use.constraint == nullptr) continue;
    const auto& constraint = *use.constraint;
    if (constraint->turn.state.load(std::memory_order_relaxed) != Turn::State::idle) continue;
    if (!worker_) {
      worker_ = std::make_unique<structured_output::ConstraintWorker>(
          structured_output::ConstraintWorkerOptions{.num_threads = num_constraint_threads(),
                                                     .quick_cost = time_per_step_});
    }
    worker_->prepare(constraint, std::nullopt);
  }
}

int ConstrainedSampling::sample(Others others) {
  if (rows_.empty()) return 0;
  const auto deadline = std::chrono::steady_clock::now() +
                        time_per_step_ * (others == Others::yes ? 1 : kPatienceWithoutOthers);
  const auto is_behind = [](const Row& row) {
    // A step that was scheduled behind a token which was then postponed has the wrong logits.
    const int64_t num_accepted = (*row.use->constraint)->turn.num_accepted;
    return std::cmp_not_equal(num_accepted, row.use->sampling.output_token_ids.size());
  };
  for (const Row& row : rows_) row.sampled->status = SamplingStatus::postponed;
  const size_t num_rows = rows_.size();
  const auto num_behind = static_cast<int>(std::erase_if(rows_, is_behind));
  for (;;) {
    const uint64_t num_prepared = worker_->num_prepared();
    std::erase_if(rows_, [this](const Row& row) { return advance(row); });
    const bool has_token = rows_.size() + static_cast<size_t>(num_behind) < num_rows;
    if (!is_worth_waiting(others == Others::no && !has_token)) break;
    if (!worker_->wait_for_more(num_prepared, deadline)) break;
  }
  return num_behind + static_cast<int>(rows_.size());
}

/// A step waits for constraints that will probably be ready in time; `waits_for_all`: for others
/// too.
bool ConstrainedSampling::is_worth_waiting(bool waits_for_all) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
    return waits_for_all || (*row.use->constraint)->turn.is_quick;
  });
}

/// Does what can be done for a row without waiting. Returns whether the row has its result.
bool ConstrainedSampling::advance(const Row& row) {
  const auto& constraint = *row.use->constraint;
  Turn& turn = constraint->turn;
  if (!is_ready(turn)) return false;
  if (!turn.problem && !turn.has_held_token) {
    choose(row);
    if (row.sampled->status != SamplingStatus::ok) return true;
    std::swap(*row.use->held_token, *row.sampled);
    row.sampled->status = SamplingStatus::postponed;
    turn.has_held_token = true;
    worker_->prepare(constraint, row.use->held_token->token_id);
    return false;
  }
  if (turn.problem) {
    end(*row.sampled, turn.problem);
  } else {
    give_out(row);
  }
  return true;
}

void ConstrainedSampling::choose(const Row& row) {
  sampling::SampledToken& sampled = *row.sampled;
  sampling::SamplingInput input = row.use->sampling;
  input.logits = row.logits;
  input.allowed_mask = (*row.use->constraint)->turn.allowed;
  sampler_->sample(input, sampled);
  if (sampled.status != SamplingStatus::no_allowed_token) return;
  // The answer may end here, but min_tokens or another parameter forbids the token that says so.
  // An answer that was complete one step ago allows no token; this sample is then dropped.
  sampled.ends_answer =
      std::any_of(eos_token_ids_.begin(), eos_token_ids_.end(), [&input](int32_t id) {
        return structured_output::contains(input.allowed_mask, id);
      });
}

void ConstrainedSampling::give_out(const Row& row) {
  Turn& turn = (*row.use->constraint)->turn;
  sampling::SampledToken& sampled = *row.sampled;
  std::swap(*row.use->held_token, sampled);
  turn.has_held_token = false;
  ++turn.num_accepted;
  sampled.ends_answer = !is_end(*row.use, sampled.token_id) && turn.is_complete;
  *row.use->placeholder = sampled.token_id;
}

/// An end-of-text token ends the request by itself and adds no text.
bool ConstrainedSampling::is_end(const LogitsUse& use, int32_t token_id) const {
  return !use.ignores_eos &&
         std::find(eos_token_ids_.begin(), eos_token_ids_.end(), token_id) != eos_token_ids_.end();
}

}  // namespace reprise::engine
