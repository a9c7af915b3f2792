#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/api/loading/sleep.h"
#include "reprise/api/request_timeline.h"
#include "reprise/engine/step_loop.h"

namespace reprise::engine {
class EngineCore;
struct EngineCoreCounters;
}  // namespace reprise::engine

namespace reprise::api {

/// Steps that this engine has to take part in although it has no request, because other engines
/// run theirs. Both are empty if there are none.
struct IdleSteps {
  std::function<bool()> are_wanted;  // thread-safe
  std::function<void()> run;         // runs one step, on the engine's thread
};

/// Work beside the requests, in parts that run between two steps while no step is in flight. The
/// engine's thread calls both functions.
struct BackgroundWork {
  /// Called after each step: may a part run now? \pre if is_idle is true, no request is unfinished
  std::function<bool(bool is_idle)> is_due;
  std::function<bool()> run;  // runs a part; returns whether there are more
};

/// The thread of an AsyncEngine: takes submitted requests, runs a step, delivers deltas; sleeps
/// when there is no work. It is separate from AsyncEngine so that tests can run it over any core.
///
/// Borrows core and tokenizer. While this object lives, no other code may use the core and the
/// runner below it. Life-cycle: serving -> dead (the device is lost; every request ends with an
/// error) -> destroyed. Other threads put submissions and aborts into an inbox. The inbox's mutex
/// is held only to move its content and to copy the statistics, never during a step or a callback.
class AsyncEngineLoop {
 public:
  /// Starts the thread.
  AsyncEngineLoop(engine::EngineCore& core,
                  const tokenizer::Tokenizer& tokenizer,
                  IdleSteps idle_steps = {},
                  engine::OnRecord on_record = {});
  AsyncEngineLoop(const AsyncEngineLoop&) = delete;
  AsyncEngineLoop& operator=(const AsyncEngineLoop&) = delete;
  /// Aborts unfinished requests (each still gets its last delta) and joins the thread.
  ~AsyncEngineLoop();

  /// See AsyncEngine. `id` is one that another engine's core has given: ids must be unique. Without
  /// it the request gets a new id.
  scheduler::RequestId submit(std::vector<int32_t> prompt_token_ids,
                              const sampling::SamplingParams& params,
                              OnDelta on_delta,
                              scheduler::RequestOptions options = {},
                              TimePoint arrived = std::chrono::steady_clock::now(),
                              std::optional<scheduler::RequestId> id = std::nullopt);
  /// Lets the thread ask again whether idle steps are wanted. Thread-safe.
  void wake();
  void abort(scheduler::RequestId id);
  [[nodiscard]] EngineStats stats() const;
  /// Runs `task` on the engine's thread after the step in progress and before requests that are
  /// submitted later, and waits for it. Thread-safe, but a callback must not call it.
  /// \throws what `task` throws
  void run_between_steps(const std::function<void(engine::EngineCore&)>& task);
  /// Like run_between_steps(), but waits until no step is in flight: so the task may change objects
  /// that steps use. The task returns the work that follows it, which replaces earlier work;
  /// without `run` there is none. The work rests while the engine is paused.
  void run_when_quiet(const std::function<BackgroundWork(engine::EngineCore&)>& task);
  /// Admits no more requests: requests submitted from now on wait for resume(). Returns when no
  /// request runs any more. Threads: as run_between_steps().
  void pause(SleepMode mode);
  void resume();

 private:
  struct Submission {
    scheduler::RequestId id{};
    std::vector<int32_t> prompt_token_ids;
    sampling::SamplingParams params;
    scheduler::RequestOptions options;
    OnDelta on_delta;
    TimePoint arrived;
    TimePoint queued;
  };
  struct Inbox {
    std::vector<Submission> submissions;
    std::vector<scheduler::RequestId> aborts;
    std::vector<std::packaged_task<void()>> tasks;
    bool stop = false;

    [[nodiscard]] bool empty() const noexcept {
      return submissions.empty() && aborts.empty() && tasks.empty() && !stop;
    }
  };
  /// A request that the core knows.
  struct Live {
    scheduler::RequestId id{};
    OnDelta on_delta;
    int32_t num_prompt_tokens = 0;
    int32_t num_output_tokens = 0;  // so far
    std::optional<int64_t> max_tokens;
    std::shared_ptr<const lora::LoraAdapter> adapter;
    RequestTimeline timeline;
  };
  using LiveRequests = std::unordered_map<uint64_t, Live>;  // by scheduler::RequestId

  void run();
  void serve(Inbox& inbox);
  [[nodiscard]] bool wants_idle_steps() const {
    return death_.empty() && idle_steps_.are_wanted && idle_steps_.are_wanted();
  }
  [[nodiscard]] Inbox take_inbox();
  void add(Submission& submission);
  void abort_now(scheduler::RequestId id);
  void step();
  void settle();
  void observe_step(TimePoint ended, const engine::EngineCoreCounters& before);
  void observe_delta(Live& live, const engine::OutputDelta& delta, TimePoint now);
  void deliver_delta(engine::OutputDelta&& delta, TimePoint now);
  void die(const std::string& reason);
  void end_all(const std::string& finish_reason, const std::string& error);
  void end_live(const std::string& finish_reason, const std::string& error);
  void note_idle();
  static Live describe(Submission& submission);
  void end(Live& request, const std::string& finish_reason, const std::string& error);
  void deliver(OnDelta& on_delta, engine::OutputDelta&& delta);
  void publish_stats();
  void publish_adapters();

  engine::EngineCore* core_;

  IdleSteps idle_steps_;

  // Used by the engine's thread only.
  engine::StepLoop requests_;
  LiveRequests live_;
  EngineStats current_;
  TimePoint step_ended_;  // end of the last step
  std::string death_;     // why the engine ended; empty while it runs
  bool is_paused_ = false;
  BackgroundWork background_;
  std::vector<Submission> held_;                   // submitted while paused
  std::vector<std::promise<void>> wait_for_idle_;  // one per waiting pause()

  mutable std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable wake_;
  Inbox inbox_;
  EngineStats stats_;

  std::thread thread_;  // last: it uses all members above
};

}  // namespace reprise::api
