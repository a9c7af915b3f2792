#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/api/sleep.h"
#include "reprise/engine/engine_core.h"
#include "reprise/engine/output_processor.h"

namespace reprise::api {

/// The thread of an AsyncEngine: takes over what came in, runs a step, delivers outputs; sleeps
/// when there is nothing to do. Apart from AsyncEngine so that it runs over any engine core.
///
/// Borrows core and tokenizer, and from construction to destruction nobody else may use the core
/// and what it runs on. Life-cycle: serving -> dead (the device is lost; every request ends with an
/// error) -> destroyed. Other threads leave submissions and aborts in an inbox; its mutex is held
/// to move them and to copy the statistics, never during a step or a callback.
class AsyncEngineLoop {
 public:
  /// Starts the thread.
  AsyncEngineLoop(engine::EngineCore& core, const tokenizer::Tokenizer& tokenizer);
  AsyncEngineLoop(const AsyncEngineLoop&) = delete;
  AsyncEngineLoop& operator=(const AsyncEngineLoop&) = delete;
  /// As ~AsyncEngine.
  ~AsyncEngineLoop();

  // As those of AsyncEngine.
  AsyncRequestId submit(std::vector<int32_t> prompt_token_ids,
                        const sampling::SamplingParams& params,
                        OnAsyncOutput on_output,
                        engine::RequestOptions options = {},
                        TimePoint arrived = std::chrono::steady_clock::now());
  void abort(AsyncRequestId id);
  [[nodiscard]] EngineStats stats() const;
  /// Runs `task` on the engine's thread, ahead of what is submitted later, and waits for it: for
  /// the step in progress at least. Thread-safe, but not from a callback. \throws what `task`
  /// throws
  void run_between_steps(const std::function<void(engine::EngineCore&)>& task);
  /// Admits nothing more: what is submitted from now on waits for resume(). Returns when nothing
  /// runs any more. The same rules.
  void pause(SleepMode mode);
  void resume();

 private:
  struct Submission {
    AsyncRequestId id{};
    std::vector<int32_t> prompt_token_ids;
    sampling::SamplingParams params;
    engine::RequestOptions options;
    OnAsyncOutput on_output;
    TimePoint arrived;
    TimePoint queued;
  };
  struct Inbox {
    std::vector<Submission> submissions;
    std::vector<AsyncRequestId> aborts;
    std::vector<std::packaged_task<void()>> tasks;
    bool stop = false;

    [[nodiscard]] bool empty() const noexcept {
      return submissions.empty() && aborts.empty() && tasks.empty() && !stop;
    }
  };
  /// A request that the core knows.
  struct Live {
    AsyncRequestId id{};
    OnAsyncOutput on_output;
    int32_t num_prompt_tokens = 0;
    std::optional<int64_t> max_tokens;
    RequestTimeline timeline;
  };
  using LiveRequests = std::unordered_map<uint64_t, Live>;  // by engine::RequestId

  void run();
  void serve(Inbox& inbox);
  [[nodiscard]] Inbox take_inbox();
  void add(Submission& submission);
  void abort_live(AsyncRequestId id);
  void abort_held(AsyncRequestId id);
  void step();
  void observe_step(TimePoint ended, const engine::EngineCoreCounters& before);
  void observe_update(Live& live, const AsyncOutput& output, TimePoint now);
  void deliver_update(const engine::EngineCore::Update& update, TimePoint now);
  void die(const std::string& reason);
  void end_all(const std::string& finish_reason, const std::string& error);
  void end_live(const std::string& finish_reason, const std::string& error);
  void note_idle();
  static Live describe(Submission& submission);
  void refuse(Live& request, const std::string& finish_reason, const std::string& error);
  void deliver(OnAsyncOutput& on_output, const AsyncOutput& output);
  void publish_stats();

  engine::EngineCore* core_;

  // Of the thread.
  engine::OutputProcessor outputs_;
  LiveRequests live_;
  std::unordered_map<uint64_t, engine::RequestId> engine_ids_;  // by AsyncRequestId
  EngineStats current_;
  TimePoint step_ended_;  // the last one
  std::string death_;     // why the engine is dead; empty while it is not
  bool is_paused_ = false;
  std::vector<Submission> held_;                   // while paused
  std::vector<std::promise<void>> wait_for_idle_;  // of pause()

  mutable std::mutex mutex_;  // guards everything below but the thread
  std::condition_variable wake_;
  Inbox inbox_;
  EngineStats stats_;
  uint64_t next_id_ = 0;

  std::thread thread_;  // last: it starts when all of the above is there
};

}  // namespace reprise::api
