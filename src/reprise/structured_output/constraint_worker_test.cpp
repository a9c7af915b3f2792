#include "reprise/structured_output/constraint_worker.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

using Clock = std::chrono::steady_clock;
using State = TokenConstraint::Turn::State;

/// Holds all work back until it is opened. A test that fails opens it too, so that no thread hangs.
class Gate {
 public:
  Gate() : opened_(open_.get_future()) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open() {
    if (!is_open_.exchange(true)) open_.set_value();
  }
  void pass() const { opened_.wait(); }

 private:
  std::atomic<bool> is_open_ = false;
  std::promise<void> open_;
  std::shared_future<void> opened_;
};

/// Allows token n + 1 after token n, and is complete with token 3.
class CountingConstraint final : public TokenConstraint {
 public:
  explicit CountingConstraint(const Gate* gate = nullptr, std::atomic<int>* num_calls = nullptr)
      : gate_(gate), num_calls_(num_calls) {}

  std::span<const uint32_t> allowed_tokens() override {
    mask_[0] = is_complete() ? 0 : 2U << static_cast<uint32_t>(last_);
    return mask_;
  }
  bool accept(int32_t token_id) override {
    if (num_calls_ != nullptr) ++*num_calls_;
    if (gate_ != nullptr) gate_->pass();
    if (token_id == 9) throw InvalidArgument("too expensive");
    if (token_id != last_ + 1) return false;
    last_ = token_id;
    return true;
  }
  bool is_complete() override { return last_ == 3; }

 private:
  const Gate* gate_;
  std::atomic<int>* num_calls_;
  int32_t last_ = 0;
  std::array<uint32_t, 1> mask_{};
};

void wait_until_ready(ConstraintWorker& worker, const TokenConstraint& constraint) {
  for (;;) {
    const uint64_t num_known = worker.num_prepared();
    if (constraint.turn.state.load(std::memory_order_acquire) == State::ready) return;
    ASSERT_TRUE(worker.wait_for_more(num_known, Clock::now() + std::chrono::minutes(2)));
  }
}

TEST(ConstraintWorker, accepts_a_token_and_makes_the_mask_of_the_next) {
  ConstraintWorker worker({});
  const auto constraint = std::make_shared<CountingConstraint>();
  worker.prepare(constraint, std::nullopt);
  for (int32_t token = 1; token <= 3; ++token) {
    wait_until_ready(worker, *constraint);
    EXPECT_FALSE(constraint->turn.is_complete);
    EXPECT_TRUE(contains(constraint->turn.allowed, token));
    EXPECT_FALSE(contains(constraint->turn.allowed, token + 1));
    worker.prepare(constraint, token);
  }
  wait_until_ready(worker, *constraint);
  EXPECT_TRUE(constraint->turn.is_complete);
  EXPECT_FALSE(constraint->turn.problem);
  EXPECT_EQ(worker.num_prepared(), 4U);
}

TEST(ConstraintWorker, keeps_the_reason_why_an_answer_cannot_go_on) {
  ConstraintWorker worker({});
  const auto refused = std::make_shared<CountingConstraint>();
  const auto expensive = std::make_shared<CountingConstraint>();
  worker.prepare(refused, 7);
  worker.prepare(expensive, 9);
  wait_until_ready(worker, *refused);
  wait_until_ready(worker, *expensive);
  EXPECT_THROW(std::rethrow_exception(refused->turn.problem), Error);
  EXPECT_THROW(std::rethrow_exception(expensive->turn.problem), InvalidArgument);
}

TEST(ConstraintWorker, prepares_quick_constraints_while_expensive_ones_run_and_wait) {
  Gate gate;
  std::vector<std::shared_ptr<CountingConstraint>> expensive;
  const auto quick = std::make_shared<CountingConstraint>();
  // The clock of a virtual machine may include time that its host used otherwise.
  ConstraintWorker worker({.num_threads = 2, .quick_cost = std::chrono::minutes(1)});
  for (int i = 0; i < 20; ++i) {
    expensive.push_back(std::make_shared<CountingConstraint>(&gate));
    expensive.back()->turn.expected_cost = std::chrono::hours(1);
    worker.prepare(expensive.back(), 1);
    EXPECT_FALSE(expensive.back()->turn.is_quick);
  }
  quick->turn.expected_cost = std::chrono::nanoseconds(1);
  for (int32_t token = 1; token <= 3; ++token) {
    worker.prepare(quick, token);
    wait_until_ready(worker, *quick);
  }
  EXPECT_TRUE(quick->turn.is_complete);
  EXPECT_EQ(worker.num_prepared(), 3U) << "an expensive constraint was ready";
  gate.open();
  for (const auto& each : expensive) wait_until_ready(worker, *each);
}

TEST(ConstraintWorker, takes_quick_constraints_with_every_thread) {
  Gate gate;
  const auto slow = std::make_shared<CountingConstraint>(&gate);
  const auto quick = std::make_shared<CountingConstraint>();
  ConstraintWorker worker({.num_threads = 2});
  slow->turn.expected_cost = quick->turn.expected_cost = std::chrono::nanoseconds(1);
  worker.prepare(slow, 1);
  worker.prepare(quick, 1);
  wait_until_ready(worker, *quick);
  EXPECT_NE(slow->turn.state.load(), State::ready);
  gate.open();
  wait_until_ready(worker, *slow);
}

TEST(ConstraintWorker, keeps_new_constraints_from_the_threads_for_quick_ones) {
  Gate gate;
  const auto unknown = std::make_shared<CountingConstraint>(&gate);
  const auto quick = std::make_shared<CountingConstraint>();
  quick->turn.expected_cost = std::chrono::nanoseconds(1);
  ConstraintWorker worker({.num_threads = 2});
  worker.prepare(unknown, 1);
  EXPECT_FALSE(unknown->turn.is_quick);
  worker.prepare(quick, 1);
  EXPECT_TRUE(quick->turn.is_quick);
  wait_until_ready(worker, *quick);
  gate.open();
  wait_until_ready(worker, *unknown);
}

TEST(ConstraintWorker, prepares_new_constraints_before_expensive_ones_that_wait) {
  Gate gate;
  Gate gate_of_later;
  std::vector<std::shared_ptr<CountingConstraint>> expensive;
  ConstraintWorker worker({.num_threads = 1});
  for (int i = 0; i < 3; ++i) {
    expensive.push_back(std::make_shared<CountingConstraint>(i == 0 ? &gate : &gate_of_later));
    expensive.back()->turn.expected_cost = std::chrono::hours(1);
    worker.prepare(expensive.back(), 1);
  }
  const auto unknown = std::make_shared<CountingConstraint>(&gate);
  worker.prepare(unknown, 1);
  gate.open();
  wait_until_ready(worker, *unknown);
  gate_of_later.open();
  for (const auto& each : expensive) wait_until_ready(worker, *each);
}

TEST(ConstraintWorker, knows_the_first_cost_from_an_earlier_answer_with_the_same_spec) {
  ConstraintWorker worker({.quick_cost = std::chrono::hours(1)});
  const auto cost = std::make_shared<std::atomic<int64_t>>(-1);
  const auto first = std::make_shared<CountingConstraint>();
  const auto second = std::make_shared<CountingConstraint>();
  first->turn.first_cost_of_spec = second->turn.first_cost_of_spec = cost;
  worker.prepare(first, std::nullopt);
  EXPECT_FALSE(first->turn.is_quick);
  wait_until_ready(worker, *first);
  EXPECT_GE(*cost, 0);
  worker.prepare(second, std::nullopt);
  EXPECT_TRUE(second->turn.is_quick);
  wait_until_ready(worker, *second);
}

TEST(ConstraintWorker, does_no_work_for_an_answer_without_a_request) {
  Gate gate;
  std::atomic<int> num_calls = 0;
  const auto first = std::make_shared<CountingConstraint>(&gate);
  ConstraintWorker worker({.num_threads = 1});
  worker.prepare(first, 1);
  auto second = std::make_shared<CountingConstraint>(nullptr, &num_calls);
  const std::weak_ptr<CountingConstraint> watched = second;
  worker.prepare(second, 1);
  second.reset();  // the request was aborted
  const auto third = std::make_shared<CountingConstraint>();
  worker.prepare(third, 1);
  gate.open();
  wait_until_ready(worker, *third);
  EXPECT_EQ(num_calls, 0);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(worker.num_prepared(), 2U);
}

TEST(ConstraintWorker, may_end_while_work_waits) {
  std::atomic<int> num_calls = 0;
  Gate gate;
  const auto running = std::make_shared<CountingConstraint>(&gate);
  const auto waiting = std::make_shared<CountingConstraint>(nullptr, &num_calls);
  {
    ConstraintWorker worker({.num_threads = 1});
    worker.prepare(running, 1);
    worker.prepare(waiting, 1);
    gate.open();
  }
  EXPECT_LE(num_calls, 1);
}

}  // namespace
}  // namespace reprise::structured_output
