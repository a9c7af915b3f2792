#include "reprise/api/replicas/replica_router.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/replicas/replica_messages.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {

IdleSteps idle_steps_of(LoadedEngine& engine) {
  runner::DataParallelSteps* steps = engine.data_parallel.get();
  if (steps == nullptr) return {};
  return {.are_wanted = [steps] { return steps->is_wave_running(); },
          .run = [runner = engine.runner.get()] { (void)runner->execute_idle(); }};
}

ReplicaRouter::ReplicaRouter(LoadedEngine& engine, AsyncEngineLoop& local)
    : engine_(&engine),
      local_(&local),
      loads_(static_cast<size_t>(engine.args.replicas->size())),
      // The bounds of the histograms are not part of messages.
      stats_(loads_.size(), local.stats()),
      messages_(
          *engine.args.replicas,
          {.take = [this](int from, std::span<const std::byte> message) { take(from, message); },
           .look = {},
           .fail = [this](const std::string& reason) { fail(reason); }}) {
  if (engine.data_parallel != nullptr) {
    engine.data_parallel->set_on_begin([this](uint64_t wave) {
      messages_.post_to_others(write_message(MessageKind::wave, wave));
    });
  }
  wait_until([this] { return std::cmp_equal(num_ready_, loads_.size()); });
  const Lock lock(mutex_);
  if (!failure_.empty()) throw parallel::RankError(failure_);
}

ReplicaRouter::~ReplicaRouter() {
  messages_.post_to_others(write_message(MessageKind::stop));
  wait_until([this] { return std::cmp_equal(num_stopped_, loads_.size()); });
  messages_.stop();
}

void ReplicaRouter::wait_until(const std::function<bool()>& condition) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return condition() || !failure_.empty(); });
}

int ReplicaRouter::least_loaded() const {
  const int size = static_cast<int>(loads_.size());
  int best = next_;
  for (int i = 1; i < size; ++i) {
    const int replica = (next_ + i) % size;
    if (loads_[static_cast<size_t>(replica)] < loads_[static_cast<size_t>(best)]) best = replica;
  }
  next_ = (best + 1) % size;
  return best;
}

scheduler::RequestId ReplicaRouter::submit_here(std::vector<int32_t> prompt_token_ids,
                                                const sampling::SamplingParams& params,
                                                OnDelta on_delta,
                                                scheduler::RequestOptions options,
                                                TimePoint arrived) {
  return local_->submit(
      std::move(prompt_token_ids),
      params,
      [this, on_delta = std::move(on_delta)](engine::OutputDelta&& delta) {
        if (delta.finished) {
          const Lock lock(mutex_);
          --loads_[0];
        }
        if (on_delta) on_delta(std::move(delta));
      },
      std::move(options),
      arrived);
}

scheduler::RequestId ReplicaRouter::submit(std::vector<int32_t> prompt_token_ids,
                                           const sampling::SamplingParams& params,
                                           OnDelta on_delta,
                                           scheduler::RequestOptions options,
                                           TimePoint arrived) {
  engine_->core->scheduler().check_admissible(prompt_token_ids, params, options);
  const bool stays_here = options.constraint != nullptr || options.adapter != nullptr;
  AddMessage message;
  int replica = 0;
  {
    const Lock lock(mutex_);
    if (!stays_here && failure_.empty()) replica = least_loaded();
    ++loads_[static_cast<size_t>(replica)];
    if (replica != 0) {
      message.id = static_cast<uint64_t>(engine_->core->new_request_id());
      live_.emplace(message.id,
                    Live{.replica = replica,
                         .on_delta = std::move(on_delta),
                         .num_prompt_tokens = static_cast<int32_t>(prompt_token_ids.size())});
    }
  }
  if (replica == 0) {
    return submit_here(std::move(prompt_token_ids),
                       params,
                       // NOLINTNEXTLINE(bugprone-use-after-move): moved for another replica only
                       std::move(on_delta),
                       std::move(options),
                       arrived);
  }
  message.prompt_token_ids = std::move(prompt_token_ids);
  message.params = params;
  message.priority = options.priority;
  message.cache_salt = std::move(options.cache_salt);
  message.client_id = std::move(options.client_id);
  messages_.post(replica, write_message(message));
  return scheduler::RequestId{message.id};
}

void ReplicaRouter::abort(scheduler::RequestId id) {
  int replica = 0;
  {
    const Lock lock(mutex_);
    const auto found = live_.find(static_cast<uint64_t>(id));
    if (found != live_.end()) replica = found->second.replica;
  }
  if (replica == 0) return local_->abort(id);
  messages_.post(replica, write_message(MessageKind::abort, static_cast<uint64_t>(id)));
}

bool ReplicaRouter::reset_prefix_cache() {
  const std::lock_guard one_at_a_time(reset_mutex_);
  {
    const Lock lock(mutex_);
    num_cache_answers_ = 1;
    all_caches_reset_ = true;
  }
  bool is_reset = false;
  local_->run_between_steps(
      [&is_reset](engine::EngineCore& core) { is_reset = core.reset_prefix_cache(); });
  messages_.post_to_others(write_message(MessageKind::reset_cache));
  wait_until([this] { return std::cmp_equal(num_cache_answers_, loads_.size()); });
  const Lock lock(mutex_);
  return is_reset && all_caches_reset_ && failure_.empty();
}

void ReplicaRouter::end_requests() {
  std::vector<scheduler::RequestId> elsewhere;
  {
    const Lock lock(mutex_);
    for (const auto& [id, live] : live_) elsewhere.push_back(scheduler::RequestId{id});
  }
  for (const scheduler::RequestId id : elsewhere) abort(id);
  // A wave of common steps that such a request has begun is then known here.
  wait_until([this] { return live_.empty(); });
}

void ReplicaRouter::take(int from, std::span<const std::byte> message) {
  switch (kind_of_message(message)) {
    case MessageKind::ready: {
      const Lock lock(mutex_);
      ++num_ready_;
      changed_.notify_all();
      return;
    }
    case MessageKind::delta:
      return take_delta(read_delta_message(message));
    case MessageKind::wave:
      if (engine_->data_parallel != nullptr) {
        engine_->data_parallel->join_wave(read_number(message));
        local_->wake();
      }
      return;
    case MessageKind::stats: {
      const Lock lock(mutex_);
      read_stats_message(message, stats_[static_cast<size_t>(from)]);
      return;
    }
    case MessageKind::cache_reset: {
      const Lock lock(mutex_);
      ++num_cache_answers_;
      all_caches_reset_ = all_caches_reset_ && read_number(message) != 0;
      changed_.notify_all();
      return;
    }
    case MessageKind::stopped: {
      const Lock lock(mutex_);
      ++num_stopped_;
      changed_.notify_all();
      return;
    }
    default:
      throw Error("a replica sent a message that only the frontend may send");
  }
}

void ReplicaRouter::take_delta(engine::OutputDelta&& delta) {
  const auto id = static_cast<uint64_t>(delta.id);
  OnDelta on_delta;
  {
    const Lock lock(mutex_);
    const auto found = live_.find(id);
    if (found == live_.end()) return;
    found->second.num_output_tokens = delta.num_output_tokens;
    on_delta = delta.finished ? std::move(found->second.on_delta) : found->second.on_delta;
  }
  const bool is_last = delta.finished;
  try {
    if (on_delta) on_delta(std::move(delta));
  } catch (...) {
    // As in AsyncEngine: its request ends, and the callback is not called again.
    if (!is_last) abort(scheduler::RequestId{id});
    const Lock lock(mutex_);
    if (const auto found = live_.find(id); found != live_.end()) found->second.on_delta = nullptr;
  }
  if (!is_last) return;
  const Lock lock(mutex_);
  --loads_[static_cast<size_t>(live_.at(id).replica)];
  live_.erase(id);
  changed_.notify_all();
}

void ReplicaRouter::fail(const std::string& reason) {
  std::map<uint64_t, Live> live;
  {
    const Lock lock(mutex_);
    failure_ = reason;
    live = std::exchange(live_, {});
    changed_.notify_all();
  }
  for (auto& [id, request] : live) {
    if (!request.on_delta) continue;
    try {
      request.on_delta({.id = scheduler::RequestId{id},
                        .num_prompt_tokens = request.num_prompt_tokens,
                        .num_output_tokens = request.num_output_tokens,
                        .finished = true,
                        .finish_reason = "error",
                        .error = "the engine is dead: " + reason});
    } catch (...) {
      continue;  // the other requests must end too
    }
  }
}

std::vector<EngineStats> ReplicaRouter::stats() const {
  const EngineStats here = local_->stats();
  const Lock lock(mutex_);
  std::vector<EngineStats> all = stats_;
  all[0] = here;
  // Without one of its replicas the whole server ends.
  for (EngineStats& stats : all) stats.is_dead = stats.is_dead || !failure_.empty();
  return all;
}

namespace {

void add_shadow(ShadowStats& total, const ShadowStats& more) {
  total.num_checks += more.num_checks;
  total.num_differences += more.num_differences;
  total.quarantined.insert(
      total.quarantined.end(), more.quarantined.begin(), more.quarantined.end());
}

}  // namespace

EngineStats ReplicaRouter::total_stats() const {
  const std::vector<EngineStats> all = stats();
  EngineStats total = all[0];
  for (size_t i = 1; i < all.size(); ++i) {
    const EngineStats& more = all[i];
    total.num_requests_running += more.num_requests_running;
    total.num_requests_waiting += more.num_requests_waiting;
    total.kv_cache_usage += more.kv_cache_usage;
    total.prompt_tokens += more.prompt_tokens;
    total.prompt_tokens_cached += more.prompt_tokens_cached;
    total.generation_tokens += more.generation_tokens;
    total.prefix_cache_queries += more.prefix_cache_queries;
    total.prefix_cache_hits += more.prefix_cache_hits;
    total.cached_states += more.cached_states;
    total.states_saved += more.states_saved;
    total.states_restored += more.states_restored;
    total.num_preemptions += more.num_preemptions;
    total.num_steps += more.num_steps;
    total.num_failed_steps += more.num_failed_steps;
    total.num_finished_stop += more.num_finished_stop;
    total.num_finished_length += more.num_finished_length;
    total.num_finished_abort += more.num_finished_abort;
    total.num_finished_error += more.num_finished_error;
    total.steps_full += more.steps_full;
    total.steps_piecewise += more.steps_piecewise;
    total.steps_eager += more.steps_eager;
    total.padding_tokens += more.padding_tokens;
    add_shadow(total.shadow, more.shadow);
    add_shadow(total.draft_shadow, more.draft_shadow);
    total.is_dead = total.is_dead || more.is_dead;
  }
  total.kv_cache_usage /= static_cast<double>(all.size());
  return total;
}

}  // namespace reprise::api
