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

#include "reprise/api/engine_frontend.h"
#include "reprise/api/engine_stats.h"
#include "reprise/api/graphs/graph_change.h"
#include "reprise/api/loading/sleep.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/engine/output_delta.h"
#include "reprise/engine/step_profiler.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::api {

/// Gets what each step added to one request. It is called on the engine's thread, so it must not
/// block or throw, and it may call no function of the engine except abort(). The deltas of a
/// request come in order; the delta with `finished` is the last one, and the engine's thread then
/// destroys the callback. When a callback throws, its request is aborted and the callback is not
/// called again.
using OnDelta = std::function<void(engine::OutputDelta&&)>;

/// An engine with its own thread: any thread submits requests, and callbacks get the answers. A
/// step that fails ends its requests with a reason, and the engine goes on. When the device is
/// lost, all requests end, and so does every later request.
class AsyncEngine : public EngineFrontend {
 public:
  /// Loads an engine and starts the thread. \throws as load_engine
  explicit AsyncEngine(const EngineArgs& args, const StartupObserver& observer = {});
  explicit AsyncEngine(std::unique_ptr<LoadedEngine> engine);
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  /// Aborts unfinished requests (each still gets its last delta) and joins the thread.
  ~AsyncEngine();

  /// Thread-safe. The first delta may come before this function returns. `arrived`: when the
  /// request reached the caller; statistics count from this time.
  /// \throws InvalidArgument when the request can never run
  scheduler::RequestId submit(std::vector<int32_t> prompt_token_ids,
                              const sampling::SamplingParams& params,
                              OnDelta on_delta,
                              scheduler::RequestOptions options = {},
                              TimePoint arrived = std::chrono::steady_clock::now());
  /// Thread-safe. The request ends after one more step at most. Unknown and finished ids are
  /// ignored.
  void abort(scheduler::RequestId id);
  /// Thread-safe. With several engines (data parallel), counts are those of all of them together.
  [[nodiscard]] EngineStats stats() const;
  /// The state of each engine. Thread-safe.
  [[nodiscard]] std::vector<EngineStats> stats_of_engines() const;
  /// For each batch size, how often it ran with which graph since the start; the most frequent rows
  /// come first. Threads: as reset_prefix_cache().
  [[nodiscard]] std::vector<cudagraph::DispatchLedger::Row> dispatch_rows();
  /// Drops all cached prefixes before any request submitted later is scheduled. Returns false and
  /// changes nothing while a request holds cache blocks. Thread-safe. The function waits for the
  /// step in progress, so a callback must not call it.
  [[nodiscard]] bool reset_prefix_cache();
  /// Starts a recording with the next step; false when a recording is already active. Threads: as
  /// reset_prefix_cache().
  [[nodiscard]] bool start_profile(const engine::StepProfilerOptions& options = {});
  /// Ends the recording and writes it as a new trace file in `folder`, while steps go on. nullopt
  /// when no recording was active. Threads: as reset_prefix_cache(). \throws Error when the file
  /// cannot be written
  [[nodiscard]] std::optional<std::filesystem::path> stop_profile(
      const std::filesystem::path& folder);

  /// Gives memory back until wake_up(). Unfinished requests first end as `mode` says; requests that
  /// are submitted later wait. Returns when the engine sleeps. A sleeping engine can change to a
  /// deeper level only. Threads: as reset_prefix_cache().
  /// \throws as LoadedEngine::sleep, and the engine goes on; Error when the engine is dead
  void sleep(SleepLevel level, SleepMode mode);
  /// Wakes these parts. When no part sleeps any more, requests go on. Threads: as
  /// reset_prefix_cache().
  /// \throws as LoadedEngine::wake_up
  void wake_up(EngineParts parts = EngineParts::all());
  /// Thread-safe; waits for nothing.
  [[nodiscard]] bool is_sleeping() const noexcept;

  /// Changes the graphs while requests run; see GraphChanges. Returns when the new plan is in
  /// force; its captures follow between steps. Threads: as reset_prefix_cache().
  /// \throws InvalidArgument, GraphsBusyError; then nothing has changed
  Json change_graphs(const GraphChange& change);
  /// Looks into a graph of this engine, as GraphMicroscope does into one of its own. Drops all
  /// cached prefixes. Threads: as reset_prefix_cache().
  /// \throws InvalidArgument; GraphsBusyError while requests are answered or the engine sleeps
  [[nodiscard]] Json profile_graph(std::string_view key);
  /// The graphs and the last change. Threads: as reset_prefix_cache().
  [[nodiscard]] Json graphs();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::api
