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

// Up to this many workers, each worker watches all others: a barrier then takes only one transfer
// of a cache line between cores. The number of such transfers grows with the square of the number
// of workers. So in larger teams worker 0 collects the arrivals, and the others watch only worker
// 0.
constexpr int kMostAllToAllWorkers = 4;
// How often to pause between two reads of the clock, because one read takes as long as many pauses.
constexpr int kPausesPerClockRead = 32;
// If a worker waits longer than this at a barrier, it opens its lane. Then worker 0 can run the
// lane, should this worker lose its core. A much shorter time would open lanes because of normal
// jitter.
constexpr int kHoldWhileWaiting_us = 2;
// How long a worker yields after spinning and before sleeping. Yielding costs almost nothing on an
// idle core, and lets other processes run on a busy core. Sleeping makes a wake-up necessary, which
// takes tens of microseconds.
constexpr auto kYieldTime = std::chrono::microseconds(500);

// The word of a lane contains its state, the parity of the run and a position. The position is the
// number of phases that are finished (or need not be run). The parity changes with each run. It
// shows other lanes whether an idle lane has finished this run or not begun it.
//
//   idle --(worker 0 publishes)--> open(0) --> held(0) --> held(1) ... --> idle
//                                    ^           |
//                                    +--open(p)<-+      its worker waits too long, or help ends
//
// The change from open to held is a compare-and-swap by the lane's worker or by worker 0. The
// holder makes all other changes with plain stores. Only the holder reads `work`, so a run cannot
// end while some thread still uses its work.
enum class LaneState : uint32_t { idle = 0, open = 1, held = 2 };

constexpr uint32_t make_word(LaneState state, uint32_t parity, uint32_t position) noexcept {
  return position << 3 | parity << 2 | static_cast<uint32_t>(state);
}
constexpr LaneState state_of(uint32_t word) noexcept { return static_cast<LaneState>(word & 3); }
constexpr uint32_t parity_of(uint32_t word) noexcept { return word >> 2 & 1; }
constexpr uint32_t position_of(uint32_t word) noexcept { return word >> 3; }

constexpr uint32_t with_state(uint32_t word, LaneState state) noexcept {
  return make_word(state, parity_of(word), position_of(word));
}

constexpr bool has_reached(uint32_t word, uint32_t parity, uint32_t position) noexcept {
  return parity_of(word) == parity &&
         (state_of(word) == LaneState::idle || position_of(word) >= position);
}

inline void pause_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

template <typename Ready>
bool yield_until(Ready ready) noexcept {
  const auto deadline = Clock::now() + kYieldTime;
  do {
    if (ready()) return true;
    sched_yield();
  } while (Clock::now() < deadline);
  return false;
}

void pin_this_thread(int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // Pinning may fail if the affinity mask has become smaller. That costs only speed.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

WorkerTeam::WorkerTeam(const Options& options)
    : num_workers_(options.num_workers),
      spin_us_(options.spin_us),
      lanes_(std::make_unique<Lane[]>(static_cast<size_t>(options.num_workers))) {
  const auto workers = static_cast<uint64_t>(num_workers_);
  for (uint64_t i = 0; i < workers; ++i) {
    lanes_[i].share = Share((i << 32) / workers, ((i + 1) << 32) / workers);
  }
  threads_.reserve(workers - 1);
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

void WorkerTeam::run(const Work& work) noexcept {
  if (num_workers_ == 1) {
    run_inline(work);
    return;
  }
  const std::lock_guard turn(turn_);
  const FloatingPointScope floating_point;
  publish(work);
  for (uint32_t phase = 0; phase < work.num_phases; ++phase) {
    if (phase != 0) pass_barrier(work, phase);
    work.run_phase(work.context, phase, lanes_[0].share);
  }
  for (int i = 1; i < num_workers_; ++i) wait_for_lane(work, i, work.num_phases);
}

void WorkerTeam::run_inline(const Work& work) noexcept {
  const FloatingPointScope floating_point;
  for (uint32_t phase = 0; phase < work.num_phases; ++phase) {
    work.run_phase(work.context, phase, Share());
  }
}

// Before and after a run all lanes are idle, so no other thread uses the state that is overwritten
// here.
void WorkerTeam::publish(const Work& work) noexcept {
  parity_ ^= 1;
  lanes_[0].word.store(make_word(LaneState::held, parity_, 0));
  for (int i = 1; i < num_workers_; ++i) {
    lanes_[static_cast<size_t>(i)].work = work;
    lanes_[static_cast<size_t>(i)].word.store(make_word(LaneState::open, parity_, 0));
  }
  wake_sleepers();
}

void WorkerTeam::stop() noexcept {
  publish(Work{});
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerTeam::pass_barrier(const Work& work, uint32_t position) noexcept {
  const uint32_t arrived = make_word(LaneState::held, parity_, position);
  const bool gathers = num_workers_ > kMostAllToAllWorkers;
  if (!gathers) set_word(lanes_[0], arrived);
  for (int i = 1; i < num_workers_; ++i) wait_for_lane(work, i, position);
  // In a large team, this word now means that all lanes have arrived.
  if (gathers) set_word(lanes_[0], arrived);
}

void WorkerTeam::wait_for_lane(const Work& work, int index, uint32_t position) noexcept {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  while (true) {
    uint32_t word = lane.word.load();
    if (has_reached(word, parity_, position)) return;
    if (state_of(word) == LaneState::open) {
      if (lane.word.compare_exchange_strong(word, with_state(word, LaneState::held))) {
        help(work, lane, word, position);
        return;
      }
      continue;
    }
    const auto may_go_on = [&] {
      const uint32_t now = lane.word.load();
      return has_reached(now, parity_, position) || state_of(now) == LaneState::open;
    };
    if (!spin(spin_us_, may_go_on) && !yield_until(may_go_on)) sleep(lanes_[0], may_go_on);
  }
}

// Worker 0 has passed all barriers before `position`, so all phases before it may run.
void WorkerTeam::help(const Work& work, Lane& lane, uint32_t word, uint32_t position) noexcept {
  for (uint32_t phase = position_of(word); phase < position; ++phase) {
    if (!work.is_serial(phase)) work.run_phase(work.context, phase, lane.share);
  }
  const auto state = position == work.num_phases ? LaneState::idle : LaneState::open;
  set_word(lane, make_word(state, parity_of(word), position));
}

void WorkerTeam::work(int index) noexcept {
  const FloatingPointScope floating_point;
  Lane& lane = lanes_[static_cast<size_t>(index)];
  const auto is_open = [&lane] { return state_of(lane.word.load()) == LaneState::open; };
  while (true) {
    if (!spin(spin_us_, is_open) && !yield_until(is_open)) sleep(lane, is_open);
    uint32_t word = lane.word.load();
    if (state_of(word) != LaneState::open) continue;  // worker 0 has taken the lane
    if (!lane.word.compare_exchange_strong(word, with_state(word, LaneState::held))) continue;
    // Work without a function means that the team stops.
    if (lane.work.run_phase == nullptr) return;
    run_lane(index, position_of(word));
  }
}

// \pre this thread holds the lane; it is released before the function returns
void WorkerTeam::run_lane(int index, uint32_t position) noexcept {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  const Work work = lane.work;
  const uint32_t parity = parity_of(lane.word.load());
  while (true) {
    const uint32_t before = position;
    while (position < work.num_phases && work.is_serial(position)) ++position;
    if (position == work.num_phases) break;
    if (position != before) set_word(lane, make_word(LaneState::held, parity, position));
    const auto may_begin = [&] { return barrier_is_reached(index, position); };
    if (position != 0 && !may_begin() && !spin(kHoldWhileWaiting_us, may_begin)) {
      leave_lane_until_barrier(index, position);
      return;
    }
    work.run_phase(work.context, position, lane.share);
    ++position;
    if (position < work.num_phases && !work.is_serial(position)) {
      set_word(lane, make_word(LaneState::held, parity, position));
    }
  }
  set_word(lane, make_word(LaneState::idle, parity, position));
}

// While the lane is open, worker 0 may run it, and the run may continue and even end. So the words
// of other lanes may be outdated when they are read here. They only tell this worker when to try to
// hold its lane again.
void WorkerTeam::leave_lane_until_barrier(int index, uint32_t position) noexcept {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  const uint32_t open = with_state(lane.word.load(), LaneState::open);
  set_word(lane, open);
  const auto is_worth_trying = [&] {
    return lane.word.load() != open || barrier_is_reached(index, position);
  };
  if (!spin(spin_us_, is_worth_trying) && !yield_until(is_worth_trying)) {
    sleep(lane, is_worth_trying);
  }
}

bool WorkerTeam::barrier_is_reached(int index, uint32_t position) const noexcept {
  const uint32_t parity = parity_of(lanes_[static_cast<size_t>(index)].word.load());
  const int watched = num_workers_ > kMostAllToAllWorkers ? 1 : num_workers_;
  for (int i = 0; i < watched; ++i) {
    if (i == index) continue;
    if (!has_reached(lanes_[static_cast<size_t>(i)].word.load(), parity, position)) return false;
  }
  return true;
}

void WorkerTeam::set_word(Lane& lane, uint32_t word) noexcept {
  lane.word.store(word);
  wake_sleepers();
}

// Works together with sleep(). Both sides first write and then read, with sequential consistency.
// So either the sleeping worker sees the new word, or this thread sees that worker counted in
// sleepers_.
void WorkerTeam::wake_sleepers() noexcept {
  if (sleepers_.count.load() == 0) [[likely]]
    return;
  for (int i = 0; i < num_workers_; ++i) {
    lanes_[static_cast<size_t>(i)].bell.fetch_add(1);
    lanes_[static_cast<size_t>(i)].bell.notify_all();
  }
}

template <typename Ready>
bool WorkerTeam::spin(int microseconds, Ready ready) const noexcept {
  const auto poll = [&] {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      pause_core();
    }
    return false;
  };
  if (poll()) return true;
  const auto deadline = Clock::now() + std::chrono::microseconds(microseconds);
  do {
    if (poll()) return true;
  } while (Clock::now() < deadline);
  return false;
}

template <typename Ready>
void WorkerTeam::sleep(Lane& lane, Ready ready) noexcept {
  sleepers_.count.fetch_add(1);
  while (true) {
    const uint32_t seen = lane.bell.load();
    if (ready()) break;
    lane.bell.wait(seen);
  }
  sleepers_.count.fetch_sub(1);
}

}  // namespace reprise::device
