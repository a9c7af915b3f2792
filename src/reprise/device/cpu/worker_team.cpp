#include "reprise/device/cpu/worker_team.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <system_error>

#include "reprise/device/cpu/floating_point_scope.h"
#include "reprise/device/error.h"

namespace reprise::device {
namespace {

using Clock = std::chrono::steady_clock;

// Up to here every worker watches every other one: one hop between cores per barrier. Beyond, the
// traffic grows with the square, so worker 0 gathers and the others watch only worker 0.
constexpr int kMostAllToAllWorkers = 4;
// Reading the clock costs as much as many pauses.
constexpr int kPausesPerClockRead = 32;
// While a task runs the others finish soon, unless their core was taken away. Yielding is nearly
// free on an idle core and polite on a busy one; sleeping costs a wake-up of tens of microseconds.
constexpr auto kYieldTime = std::chrono::microseconds(500);

inline void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// a >= b for counters that wrap around.
inline bool reached(uint32_t a, uint32_t b) noexcept { return static_cast<int32_t>(a - b) >= 0; }

template <typename Ready>
bool spin(const std::atomic<uint32_t>& word, int spin_us, Ready ready) noexcept {
  const auto poll = [&] {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready(word.load(std::memory_order_acquire))) return true;
      pause_core();
    }
    return false;
  };
  if (poll()) return true;
  const auto deadline = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    if (poll()) return true;
  } while (Clock::now() < deadline);
  return false;
}

template <typename Ready>
bool yield_until(const std::atomic<uint32_t>& word, Ready ready) noexcept {
  const auto deadline = Clock::now() + kYieldTime;
  do {
    if (ready(word.load(std::memory_order_acquire))) return true;
    sched_yield();
  } while (Clock::now() < deadline);
  return false;
}

// Pairs with wake(): either the sleeper sees the new value or the waker sees the sleeper, because
// both sides write first and read second, sequentially consistent.
template <typename Ready>
void sleep_until(const std::atomic<uint32_t>& word,
                 std::atomic<uint32_t>& sleepers,
                 Ready ready) noexcept {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (uint32_t value = word.load(std::memory_order_seq_cst); !ready(value);
       value = word.load(std::memory_order_seq_cst)) {
    word.wait(value, std::memory_order_seq_cst);
  }
  sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void wake(std::atomic<uint32_t>& word, const std::atomic<uint32_t>& sleepers) noexcept {
  if (sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]] word.notify_all();
}

void pin_this_thread(int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // A refusal (the mask shrank meanwhile) costs speed, not correctness.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

WorkerTeam::Member::Member(WorkerTeam& team, int index, uint32_t base) noexcept
    : team_(&team),
      index_(index),
      base_(base),
      first_(team.fractions_[static_cast<size_t>(index)]),
      last_(team.fractions_[static_cast<size_t>(index) + 1]) {}

void WorkerTeam::Member::arrive(uint32_t number) noexcept {
  // When worker 0 gathers, its own arrival means "everybody has", so wait() publishes it.
  if (index_ == 0 && team_->num_workers_ > kMostAllToAllWorkers) return;
  team_->arrive_at(index_, base_ + number);
}

void WorkerTeam::Member::wait(uint32_t number) noexcept {
  const uint32_t target = base_ + number;
  const int workers = team_->num_workers_;
  if (workers > kMostAllToAllWorkers && index_ != 0) {
    team_->wait_for(0, target);
    return;
  }
  for (int i = 0; i < workers; ++i) {
    if (i != index_) team_->wait_for(i, target);
  }
  if (workers > kMostAllToAllWorkers) team_->arrive_at(0, target);
}

WorkerTeam::WorkerTeam(const Options& options)
    : num_workers_(options.num_workers),
      spin_us_(options.spin_us),
      progress_(std::make_unique<Progress[]>(static_cast<size_t>(options.num_workers))) {
  const auto workers = static_cast<uint64_t>(num_workers_);
  for (uint64_t i = 0; i <= workers; ++i) fractions_.push_back((i << 32) / workers);
  threads_.reserve(static_cast<size_t>(num_workers_ - 1));
  try {
    for (int i = 1; i < num_workers_; ++i) {
      const auto slot = static_cast<size_t>(i);
      const int core = slot < options.cores.size() ? options.cores[slot] : -1;
      threads_.emplace_back([this, i, core] {
        if (core >= 0) pin_this_thread(core);
        pthread_setname_np(pthread_self(), fmt::format("reprise-{}", i).c_str());
        work(i);
      });
    }
  } catch (const std::system_error& error) {
    const size_t started = threads_.size();
    stop();
    throw DeviceError(fmt::format("cpu: started {} of {} worker threads: {}; use fewer threads",
                                  started,
                                  num_workers_ - 1,
                                  error.what()));
  }
}

WorkerTeam::~WorkerTeam() { stop(); }

void WorkerTeam::run(Task task, const void* context, uint32_t num_barriers) noexcept {
  if (num_workers_ == 1) {
    run_inline(task, context);
    return;
  }
  const std::lock_guard turn(turn_);
  const FloatingPointScope floating_point;
  const uint32_t base = next_base_;
  publish(task, context, num_barriers);
  Member member(*this, 0, base);
  task(context, member);
  const uint32_t end = base + num_barriers + 1;
  arrive_at(0, end);
  for (int i = 1; i < num_workers_; ++i) wait_for(i, end);
  next_base_ = end;
}

void WorkerTeam::run_inline(Task task, const void* context) noexcept {
  const FloatingPointScope floating_point;
  Member member(*this, 0, 0);
  member.last_ = uint64_t{1} << 32;
  task(context, member);
}

void WorkerTeam::publish(Task task, const void* context, uint32_t num_barriers) noexcept {
  // Plain writes: all workers have finished the last job and only look at the epoch now.
  job_.task = task;
  job_.context = context;
  job_.base = next_base_;
  job_.num_barriers = num_barriers;
  job_.epoch.fetch_add(1, std::memory_order_seq_cst);
  wake(job_.epoch, job_.sleepers);
}

void WorkerTeam::stop() noexcept {
  publish(nullptr, nullptr, 0);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerTeam::work(int index) noexcept {
  const FloatingPointScope floating_point;
  uint32_t seen = 0;
  while (true) {
    const auto is_new = [&seen](uint32_t epoch) { return epoch != seen; };
    if (!spin(job_.epoch, spin_us_, is_new)) sleep_until(job_.epoch, job_.sleepers, is_new);
    ++seen;  // the next job is published only after this one is done everywhere
    if (job_.task == nullptr) return;
    const uint32_t end = job_.base + job_.num_barriers + 1;
    Member member(*this, index, job_.base);
    job_.task(job_.context, member);
    arrive_at(index, end);
  }
}

void WorkerTeam::arrive_at(int index, uint32_t target) noexcept {
  Progress& mine = progress_[static_cast<size_t>(index)];
  mine.arrived.store(target, std::memory_order_seq_cst);
  wake(mine.arrived, mine.sleepers);
}

void WorkerTeam::wait_for(int index, uint32_t target) noexcept {
  Progress& other = progress_[static_cast<size_t>(index)];
  const auto has_arrived = [target](uint32_t arrived) { return reached(arrived, target); };
  if (has_arrived(other.arrived.load(std::memory_order_acquire))) return;
  if (spin(other.arrived, spin_us_, has_arrived)) return;
  if (yield_until(other.arrived, has_arrived)) return;
  sleep_until(other.arrived, other.sleepers, has_arrived);
}

}  // namespace reprise::device
