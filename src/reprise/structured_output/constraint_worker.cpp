#include "reprise/structured_output/constraint_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/base/thread_priority.h"
#include "reprise/structured_output/thread_clock.h"

namespace reprise::structured_output {
namespace {

using Clock = std::chrono::steady_clock;
using Turn = TokenConstraint::Turn;

/// Normally the limits on the work of one call (xgrammar_backend.cpp) end the call much sooner.
constexpr std::chrono::milliseconds kPatienceOfConstraints{1000};

/// The end of the process does not wait for this thread, so its priority may be very low.
constexpr int kNicenessOfExpensiveWork = 10;

/// The kinds of constraints that a thread accepts.
enum class Reach : uint8_t { all, unknown, quick };

/// The first thread of a worker accepts all constraints. With three or more threads, the second
/// accepts new ones, because the call of an expensive constraint must not make new ones wait.
Reach reach_of(int thread, int num_threads) {
  if (thread == 0) return Reach::all;
  return thread == 1 && num_threads > 2 ? Reach::unknown : Reach::quick;
}

}  // namespace

struct ConstraintWorker::Shared {
  struct Job {
    std::shared_ptr<TokenConstraint> constraint;
    std::optional<int32_t> token_id;
  };
  using Jobs = std::deque<Job>;

  ConstraintWorkerOptions options;

  mutable std::mutex mutex;  // guards everything below; not held during the work
  std::condition_variable asked;
  std::condition_variable asked_for_quick;
  std::condition_variable prepared;
  Jobs quick;
  Jobs unknown;  // new constraints, whose cost is unknown; they come before expensive ones
  Jobs expensive;
  uint64_t num_prepared = 0;
  int num_working = 0;
  size_t num_idle_for_quick = 0;  // number of idle threads that accept only quick constraints
  bool stop = false;

  /// The queue from which a thread takes its next job; null: there is none. If there is only one
  /// thread, it serves quick jobs first.
  Jobs* next_queue(Reach reach) {
    if (reach == Reach::unknown) return unknown.empty() ? nullptr : &unknown;
    Jobs& others = unknown.empty() ? expensive : unknown;
    const bool takes_others = reach == Reach::all && !others.empty();
    if (takes_others && (options.num_threads > 1 || quick.empty())) return &others;
    return quick.empty() ? nullptr : &quick;
  }

  [[nodiscard]] Jobs& queue_for(const Turn& turn) {
    if (turn.is_quick) return quick;
    return turn.expected_cost ? expensive : unknown;
  }

  void wait_for_work(std::unique_lock<std::mutex>& lock, Reach reach) {
    const auto has_work = [&] { return stop || next_queue(reach) != nullptr; };
    if (reach != Reach::quick) return asked.wait(lock, has_work);
    ++num_idle_for_quick;
    asked_for_quick.wait(lock, has_work);
    --num_idle_for_quick;
  }

  void work_off(Reach reach) {
    std::unique_lock lock(mutex);
    for (;;) {
      wait_for_work(lock, reach);
      if (stop) return;
      Jobs& queue = *next_queue(reach);
      Job job = std::move(queue.front());
      queue.pop_front();
      ++num_working;
      lock.unlock();
      const bool is_wanted = job.constraint.use_count() > 1;  // its request has the other pointer
      if (is_wanted) work(*job.constraint, job.token_id);
      job = {};  // destroys the constraint of a request that has ended
      lock.lock();
      --num_working;
      num_prepared += is_wanted ? 1 : 0;
      prepared.notify_all();
    }
  }

  static void work(TokenConstraint& constraint, std::optional<int32_t> token_id) {
    Turn& turn = constraint.turn;
    const ThreadClock used =
        ThreadClock::of_this_thread();  // other programs make nothing expensive
    try {
      if (token_id && !constraint.accept(*token_id)) {
        throw Error(
            fmt::format("the constraint on the answer allows token {} and refuses it", *token_id));
      }
      turn.is_complete = constraint.is_complete();
      turn.allowed = constraint.allowed_tokens();
    } catch (...) {
      turn.problem = std::current_exception();
    }
    const std::chrono::nanoseconds cost = used.elapsed();
    if (!turn.expected_cost && turn.first_cost_of_spec) *turn.first_cost_of_spec = cost.count();
    // A single cheap token among expensive ones does not make an answer quick.
    turn.expected_cost = std::max(cost, turn.expected_cost.value_or(cost) * 7 / 8);
    turn.state.store(Turn::State::ready, std::memory_order_release);
  }
};

ConstraintWorker::ConstraintWorker(const ConstraintWorkerOptions& options)
    : shared_(std::make_shared<Shared>()) {
  shared_->options = options;
  for (int i = 0; i < options.num_threads; ++i) {
    const Reach reach = reach_of(i, options.num_threads);
    std::thread([shared = shared_, reach] {
      if (reach != Reach::quick && shared->options.num_threads > 1) {
        make_this_thread_patient(kNicenessOfExpensiveWork);
      }
      shared->work_off(reach);
    }).detach();
  }
}

ConstraintWorker::~ConstraintWorker() {
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->asked.notify_all();
  shared_->asked_for_quick.notify_all();
  shared_->prepared.wait_for(
      lock, kPatienceOfConstraints, [this] { return shared_->num_working == 0; });
}

void ConstraintWorker::prepare(std::shared_ptr<TokenConstraint> constraint,
                               std::optional<int32_t> token_id) {
  Turn& turn = constraint->turn;
  REPRISE_ASSERT(turn.state.load(std::memory_order_relaxed) != Turn::State::working,
                 "a constraint is prepared twice at the same time");
  if (!turn.expected_cost && turn.first_cost_of_spec && *turn.first_cost_of_spec >= 0) {
    turn.expected_cost = std::chrono::nanoseconds(*turn.first_cost_of_spec);
  }
  turn.is_quick = turn.expected_cost && *turn.expected_cost <= shared_->options.quick_cost;
  turn.state.store(Turn::State::working, std::memory_order_relaxed);
  const bool is_quick = turn.is_quick;
  const std::lock_guard lock(shared_->mutex);
  Shared::Jobs& queue = shared_->queue_for(turn);
  queue.push_back({std::move(constraint), token_id});
  const bool has_idle_thread = is_quick && queue.size() <= shared_->num_idle_for_quick;
  if (has_idle_thread) return shared_->asked_for_quick.notify_one();
  shared_->asked.notify_all();  // at most two threads wait, and they accept different kinds
}

uint64_t ConstraintWorker::num_prepared() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->num_prepared;
}

bool ConstraintWorker::wait_for_more(uint64_t num_known, Clock::time_point deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->prepared.wait_until(
      lock, deadline, [&] { return shared_->num_prepared > num_known; });
}

}  // namespace reprise::structured_output
