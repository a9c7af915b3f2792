#include "reprise/runner/constrained_sampling.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/runner/model_runner.h"
#include "reprise/runner/model_step.h"
#include "reprise/structured_output/constraint_worker.h"

namespace reprise::runner {
namespace {

using sampling::SamplingStatus;
using Turn = structured_output::TokenConstraint::Turn;

/// A step without other requests can only delay requests that have not arrived yet, so it waits
/// this many times longer before it would compute its rows again.
constexpr int kPatienceWithoutOthers = 10;
/// The interval at which such a step checks whether another request has arrived.
constexpr std::chrono::microseconds kTimeBetweenLooks{200};
/// If there are other requests, a step waits for at most 1 / kPartOfForward of the time of its
/// forward, so that constraints never make steps much longer, but for at least a part of
/// time_per_step_, which usual constraints need.
constexpr int kPartOfForward = 4;
constexpr int kLeastPartOfTime = 8;
/// The time between two checks of a step that must wait for all constraints.
constexpr std::chrono::hours kLongestPatience{1};

bool is_ready(const Turn& turn) {
  return turn.state.load(std::memory_order_acquire) == Turn::State::ready;
}

/// One thread for expensive constraints, one for new constraints, and the others for quick ones.
/// The engine itself needs the other cores.
int num_constraint_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 8, 2, 4) + 1;
}

/// A constraint that fails ends only its own request, and no other request of the step.
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

ConstrainedSampling::ConstrainedSampling(ModelRunner& runner,
                                         sampling::Sampler& sampler,
                                         const scheduler::SchedulerConfig& config)
    : runner_(&runner),
      sampler_(&sampler),
      eos_token_ids_(config.eos_token_ids),
      may_postpone_(runner.states().tensors().empty()),
      time_per_step_(config.constraint_time_per_step) {
  requests_.reserve(static_cast<size_t>(config.max_num_seqs));
}

ConstrainedSampling::~ConstrainedSampling() = default;

void ConstrainedSampling::begin(std::span<const LogitsUse> uses) {
  requests_.clear();
  began_ = std::chrono::steady_clock::now();
  if (arrivals_ != nullptr) num_arrivals_ = arrivals_->load(std::memory_order_relaxed);
  for (const LogitsUse& use : uses) {
    if (use.constraint() == nullptr) continue;
    const auto& constraint = *use.constraint();
    if (constraint->turn.state.load(std::memory_order_relaxed) != Turn::State::idle) continue;
    if (!worker_) {
      worker_ = std::make_unique<structured_output::ConstraintWorker>(
          structured_output::ConstraintWorkerOptions{.num_threads = num_constraint_threads(),
                                                     .quick_cost = time_per_step_ / 4});
    }
    worker_->prepare(constraint, std::nullopt);
  }
}

int ConstrainedSampling::sample(const StepResult& result, Others others) {
  if (requests_.empty()) return 0;
  const auto now = std::chrono::steady_clock::now();
  const auto deadline = now + (others == Others::yes ? std::clamp((now - began_) / kPartOfForward,
                                                                  time_per_step_ / kLeastPartOfTime,
                                                                  time_per_step_)
                                                     : time_per_step_ * kPatienceWithoutOthers);
  const auto is_behind = [](const Rows& rows) {
    // If a token was postponed, a step that was scheduled after it has the wrong logits.
    const int64_t num_accepted = (*rows.use->constraint())->turn.num_accepted;
    return std::cmp_not_equal(num_accepted, rows.use->sampling.output_token_ids.size());
  };
  for (const Rows& rows : requests_) {
    for (sampling::SampledToken& sampled : rows.sampled) {
      sampled.problem.clear();
      sampled.status = SamplingStatus::postponed;
    }
  }
  // The cost of a new constraint is unknown. Most new constraints are ready soon, so the step waits
  // a moment.
  const auto waits_for_first_mask = [](const Rows& rows) {
    const Turn& turn = (*rows.use->constraint())->turn;
    return turn.num_accepted == 0 && !turn.has_held_token;
  };
  const size_t num_requests = requests_.size();
  const auto num_behind = std::erase_if(requests_, is_behind);
  const auto has_no_token = [](const Rows& rows) { return rows.num_done == 0; };
  for (;;) {
    const uint64_t num_prepared = worker_->num_prepared();
    std::erase_if(requests_, [&](Rows& rows) { return advance(result, rows); });
    const bool has_token = requests_.size() + num_behind < num_requests ||
                           !std::ranges::all_of(requests_, has_no_token);
    auto until = deadline;
    if (!may_postpone_) {
      if (requests_.empty()) break;
      (void)worker_->wait_for_more(num_prepared, now + kLongestPatience);
      continue;
    }
    if (!is_worth_waiting(others == Others::no && !has_token)) {
      if (!std::ranges::any_of(requests_, waits_for_first_mask)) break;
      until = std::min(deadline, now + time_per_step_ / kLeastPartOfTime);
    }
    if (!wait_for_more(num_prepared, until, others)) break;
  }
  return static_cast<int>(num_behind) +
         static_cast<int>(std::ranges::count_if(requests_, has_no_token));
}

/// In a step without other requests, the wait also ends when a request arrives, because the wait
/// would delay it.
bool ConstrainedSampling::wait_for_more(uint64_t num_prepared,
                                        std::chrono::steady_clock::time_point deadline,
                                        Others others) {
  if (others == Others::yes || arrivals_ == nullptr) {
    return worker_->wait_for_more(num_prepared, deadline);
  }
  while (arrivals_->load(std::memory_order_relaxed) == num_arrivals_) {
    const auto next_look = std::chrono::steady_clock::now() + kTimeBetweenLooks;
    if (worker_->wait_for_more(num_prepared, std::min(deadline, next_look))) return true;
    if (deadline <= next_look) return false;
  }
  return false;
}

/// A step waits for constraints that will probably be ready in time; with `waits_for_all`, also for
/// the others.
bool ConstrainedSampling::is_worth_waiting(bool waits_for_all) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const Rows& rows) {
    return waits_for_all || (*rows.use->constraint())->turn.is_quick;
  });
}

/// Does everything for a request that is possible without waiting. Returns whether the request has
/// its result.
bool ConstrainedSampling::advance(const StepResult& result, Rows& rows) {
  const auto& constraint = *rows.use->constraint();
  Turn& turn = constraint->turn;
  while (is_ready(turn)) {
    sampling::SampledToken& sampled = rows.sampled[rows.num_done];
    if (turn.problem) {
      end(sampled, turn.problem);
      return true;
    }
    if (turn.has_held_token) {
      if (give_out(rows)) return true;
      continue;  // continues with the next row, whose mask is ready
    }
    choose(result, rows);
    if (sampled.status != SamplingStatus::ok) return true;
    std::swap(rows.use->held_token(), sampled);
    sampled.status = SamplingStatus::postponed;
    turn.has_held_token = true;
    worker_->prepare(constraint, rows.use->held_token().token_id);
  }
  return false;
}

void ConstrainedSampling::choose(const StepResult& result, const Rows& rows) {
  sampling::SampledToken& sampled = rows.sampled[rows.num_done];
  sampling::SamplingInput input = rows.use->sampling_at(rows.num_done);
  input.logits = runner_->logits_row(result, rows.first_row + static_cast<int32_t>(rows.num_done));
  input.allowed_mask = (*rows.use->constraint())->turn.allowed;
  sampler_->sample(input, sampled);
  if (sampled.status != SamplingStatus::no_allowed_token) return;
  // The answer may end here, but min_tokens or another parameter forbids the token that ends it. An
  // answer that was complete one step ago allows no token; then this sample is dropped.
  sampled.ends_answer =
      std::any_of(eos_token_ids_.begin(), eos_token_ids_.end(), [&input](int32_t id) {
        return structured_output::contains(input.allowed_mask, id);
      });
}

/// Gives the held token to the request. Returns true if that was its last token in this step: no
/// row is left, the draft for this row was not accepted, or the answer ends.
bool ConstrainedSampling::give_out(Rows& rows) {
  Turn& turn = (*rows.use->constraint())->turn;
  sampling::SampledToken& sampled = rows.sampled[rows.num_done];
  std::swap(rows.use->held_token(), sampled);
  turn.has_held_token = false;
  ++turn.num_accepted;
  const bool is_end_token = is_end(*rows.use, sampled.token_id);
  sampled.ends_answer = !is_end_token && turn.is_complete;
  int32_t& placeholder = rows.use->placeholders()[rows.num_done];
  const bool is_accepted = placeholder == sampled.token_id;
  placeholder = sampled.token_id;
  ++rows.num_done;
  return rows.num_done == rows.sampled.size() || !is_accepted || is_end_token ||
         sampled.ends_answer;
}

/// An end-of-text token ends the request by itself and adds no text.
bool ConstrainedSampling::is_end(const LogitsUse& use, int32_t token_id) const {
  return !use.entry->request->params().ignore_eos &&
         std::find(eos_token_ids_.begin(), eos_token_ids_.end(), token_id) != eos_token_ids_.end();
}

}  // namespace reprise::runner
