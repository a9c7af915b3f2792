#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/engine_args.h"
#include "reprise/api/engine_frontend.h"
#include "reprise/api/engine_stats.h"
#include "reprise/api/sleep.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/engine/output_delta.h"
#include "reprise/engine/step_profiler.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::api {

/// Takes what each step added to one request. Called on the engine's thread: it must not block,
/// throw or call back into the engine except for abort(). The deltas of one request come in order,
/// the finished one is the last, and the callback is destroyed after it, on the engine's thread
/// too. When a callback throws, its request is aborted and the callback is not called again.
using OnDelta = std::function<void(engine::OutputDelta&&)>;

/// An engine with a thread of its own: requests come from any thread and answers go to callbacks.
/// A step that fails ends the requests that were in it, with a reason, and the engine goes on. When
/// the device is lost, all requests and every later one end at once.
class AsyncEngine : public EngineFrontend {
 public:
  /// Loads an engine and starts the thread. \throws as EngineLoader::load
  explicit AsyncEngine(const EngineArgs& args, const StartupObserver& observer = {});
  explicit AsyncEngine(std::unique_ptr<LoadedEngine> engine);
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  /// Aborts what is unfinished (each request still gets its last delta) and joins.
  ~AsyncEngine();

  /// Thread-safe. The first delta may come before this returns. `arrived`: when the request
  /// reached the caller; statistics count from there.
  /// \throws InvalidArgument when the request can never run
  engine::RequestId submit(std::vector<int32_t> prompt_token_ids,
                           const sampling::SamplingParams& params,
                           OnDelta on_delta,
                           engine::RequestOptions options = {},
                           TimePoint arrived = std::chrono::steady_clock::now());
  /// Thread-safe; within one step. Unknown and finished ids are ignored.
  void abort(engine::RequestId id);
  /// Thread-safe.
  [[nodiscard]] EngineStats stats() const;
  /// How often each size of batch ran as which graph since the start, most frequent first.
  /// Threads: as reset_prefix_cache().
  [[nodiscard]] std::vector<cudagraph::DispatchLedger::Row> dispatch_rows();
  /// Forgets all cached prefixes, before any request submitted later is looked at. Returns false
  /// and changes nothing while a request holds blocks. Thread-safe; waits for the step in progress,
  /// so it must not be called from a callback.
  [[nodiscard]] bool reset_prefix_cache();
  /// Records steps from the next one on; false when a recording runs already. Threads: as
  /// reset_prefix_cache().
  [[nodiscard]] bool start_profile(const engine::StepProfilerOptions& options = {});
  /// Ends the recording and writes it as a new trace file in `folder`, while steps go on. nullopt
  /// when nothing was recorded. Threads: as reset_prefix_cache(). \throws Error when the file
  /// cannot be written
  [[nodiscard]] std::optional<std::filesystem::path> stop_profile(
      const std::filesystem::path& folder);

  /// Gives memory back until wake_up(). Present requests end by `mode` first; requests that are
  /// submitted later wait. Returns when the engine sleeps. An engine that sleeps can only sleep
  /// deeper. Threads: as reset_prefix_cache(). \throws as LoadedEngine::sleep, and the engine goes
  /// on; Error when the engine is dead
  void sleep(SleepLevel level, SleepMode mode);
  /// Wakes these parts; when no part sleeps, requests go on. Threads: as reset_prefix_cache().
  /// \throws as LoadedEngine::wake_up
  void wake_up(EngineParts parts = EngineParts::all());
  /// Thread-safe; waits for nothing.
  [[nodiscard]] bool is_sleeping() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::api
