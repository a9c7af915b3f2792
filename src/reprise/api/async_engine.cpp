#include "reprise/api/async_engine.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "reprise/api/async_engine_loop.h"
#include "reprise/api/graphs/graph_changes.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/replay_log.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/replicas/replica_router.h"
#include "reprise/engine/bad_words.h"
#include "reprise/engine/engine_core.h"
#include "reprise/engine/step_trace.h"
#include "reprise/kv_cache/events/kv_event_publisher.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/replay_log/log_writer.h"

namespace reprise::api {

namespace {

constexpr int32_t kAwake = -1;

}  // namespace

struct AsyncEngine::Impl {
  explicit Impl(LoadedEngine& engine)
      : changes(engine),
        local(std::make_unique<AsyncEngineLoop>(
            *engine.core, engine.text->tokenizer(), idle_steps_of(engine), on_record_of(engine))),
        loop(*local) {
    if (engine.args.replicas != nullptr) router = std::make_unique<ReplicaRouter>(engine, loop);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (router) router->end_requests();
    // The last deltas still go through the router, so `local` ends before it.
    local.reset();
  }

  GraphChanges changes;    // used on the thread of `local`, which ends before
  std::mutex sleep_mutex;  // held by the thread that puts the engine to sleep or wakes it
  std::atomic<int32_t> sleep_level = kAwake;
  std::unique_ptr<ReplicaRouter> router;  // nullptr: this is the only engine
  std::unique_ptr<AsyncEngineLoop> local;
  AsyncEngineLoop& loop;
};

AsyncEngine::AsyncEngine(const EngineArgs& args, const StartupObserver& observer)
    : AsyncEngine(load_engine(args, observer)) {}

AsyncEngine::AsyncEngine(std::unique_ptr<LoadedEngine> engine)
    : EngineFrontend(std::move(engine)), impl_(std::make_unique<Impl>(*engine_)) {}

AsyncEngine::~AsyncEngine() = default;

scheduler::RequestId AsyncEngine::submit(std::vector<int32_t> prompt_token_ids,
                                         const sampling::SamplingParams& params,
                                         OnDelta on_delta,
                                         scheduler::RequestOptions options,
                                         TimePoint arrived) {
  sampling::SamplingParams complete = params;
  engine::tokenize_bad_words(complete, tokenizer());
  if (impl_->router) {
    return impl_->router->submit(
        std::move(prompt_token_ids), complete, std::move(on_delta), std::move(options), arrived);
  }
  return impl_->loop.submit(
      std::move(prompt_token_ids), complete, std::move(on_delta), std::move(options), arrived);
}

void AsyncEngine::abort(scheduler::RequestId id) {
  impl_->router ? impl_->router->abort(id) : impl_->loop.abort(id);
}

std::vector<cudagraph::DispatchLedger::Row> AsyncEngine::dispatch_rows() {
  std::vector<cudagraph::DispatchLedger::Row> rows;
  impl_->loop.run_between_steps([&rows](engine::EngineCore& core) { rows = core.ledger().rows(); });
  return rows;
}

bool AsyncEngine::reset_prefix_cache() {
  if (impl_->router) return impl_->router->reset_prefix_cache();
  bool is_reset = false;
  impl_->loop.run_between_steps(
      [&is_reset](engine::EngineCore& core) { is_reset = core.reset_prefix_cache(); });
  return is_reset;
}

bool AsyncEngine::start_profile(const engine::StepProfilerOptions& options) {
  bool has_started = false;
  impl_->loop.run_between_steps(
      [&](engine::EngineCore& core) { has_started = core.clock().profiler.start(options); });
  return has_started;
}

std::optional<std::filesystem::path> AsyncEngine::stop_profile(
    const std::filesystem::path& folder) {
  std::optional<engine::StepProfile> profile;
  impl_->loop.run_between_steps(
      [&profile](engine::EngineCore& core) { profile = core.clock().profiler.stop(); });
  if (!profile) return std::nullopt;
  return engine::save_trace(*profile, folder);
}

void AsyncEngine::sleep(SleepLevel level, SleepMode mode) {
  const std::lock_guard lock(impl_->sleep_mutex);
  impl_->loop.pause(mode);
  try {
    impl_->loop.run_between_steps([&](engine::EngineCore&) { engine_->sleep(level); });
  } catch (...) {
    if (!is_sleeping()) impl_->loop.resume();
    throw;
  }
  impl_->sleep_level = std::max(impl_->sleep_level.load(), static_cast<int32_t>(level));
}

void AsyncEngine::wake_up(EngineParts parts) {
  const std::lock_guard lock(impl_->sleep_mutex);
  impl_->loop.run_between_steps([&](engine::EngineCore&) { engine_->wake_up(parts); });
  if (!is_sleeping() || engine_->sleeping().any()) return;
  impl_->loop.resume();
  impl_->sleep_level = kAwake;
}

bool AsyncEngine::is_sleeping() const noexcept { return impl_->sleep_level != kAwake; }

Json AsyncEngine::change_graphs(const GraphChange& change) {
  const std::lock_guard lock(impl_->sleep_mutex);
  Json answer;
  GraphChanges& changes = impl_->changes;
  impl_->loop.run_when_quiet([&](engine::EngineCore&) -> BackgroundWork {
    answer = changes.begin(change);
    if (!changes.is_capturing()) return {};
    return {.is_due = [&changes](bool is_idle) { return changes.is_due(is_idle); },
            .run = [&changes] { return changes.capture_one(); }};
  });
  return answer;
}

Json AsyncEngine::profile_graph(std::string_view key) {
  const std::lock_guard lock(impl_->sleep_mutex);
  Json profile;
  impl_->loop.run_when_quiet([&](engine::EngineCore& core) -> BackgroundWork {
    if (core.has_unfinished_requests() || !core.reset_prefix_cache()) {
      throw GraphsBusyError("graphs: requests are answered; try again when they have finished");
    }
    profile = impl_->changes.profile(key);
    return {};
  });
  return profile;
}

Json AsyncEngine::graphs() {
  Json state;
  impl_->loop.run_between_steps([&](engine::EngineCore&) { state = impl_->changes.state(); });
  return state;
}

EngineStats AsyncEngine::stats() const {
  EngineStats stats = impl_->router ? impl_->router->total_stats() : impl_->loop.stats();
  if (const auto& publisher = engine_->event_publisher) {
    stats.kv_event_payloads_sent = publisher->num_sent();
    stats.kv_event_payloads_dropped = publisher->num_dropped();
    stats.kv_event_payloads_missed = publisher->num_missed();
  }
  if (engine_->kv_transfer) stats.kv_transfer = engine_->kv_transfer->counts();
  if (engine_->replay_log) stats.replay_log = engine_->replay_log->counts();
  stats.graphs = impl_->changes.stats();
  if (is_sleeping()) stats.sleep_level = static_cast<SleepLevel>(impl_->sleep_level.load());
  return stats;
}

std::vector<EngineStats> AsyncEngine::stats_of_engines() const {
  if (impl_->router) return impl_->router->stats();
  return {stats()};
}

}  // namespace reprise::api
