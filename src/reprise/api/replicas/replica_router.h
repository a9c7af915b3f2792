#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/async_engine_loop.h"
#include "reprise/api/replicas/message_thread.h"

namespace reprise::runner {
class DataParallelSteps;
}

namespace reprise::api {

struct LoadedEngine;

/// The idle steps of an engine whose steps belong together with those of other engines.
[[nodiscard]] IdleSteps idle_steps_of(LoadedEngine& engine);

/// The frontend of several replicas (data parallel): gives each request to the replica with the
/// fewest unfinished ones, and hands over the answers. One replica is in this process, the others
/// are served by serve_replica() in theirs. Requests with a constraint or an adapter stay in this
/// process.
///
/// Thread-safe. Callbacks come from the thread of the local engine or from the thread of messages;
/// those of one request come in order. When a replica is lost, all requests end with an error.
class ReplicaRouter {
 public:
  /// Waits until all replicas are ready. \throws parallel::RankError
  ReplicaRouter(LoadedEngine& engine, AsyncEngineLoop& local);
  ReplicaRouter(const ReplicaRouter&) = delete;
  ReplicaRouter& operator=(const ReplicaRouter&) = delete;
  /// Ends the replicas, and takes their messages until each has sent its last one: some transports
  /// deliver a long message only to a rank that asks for it, and its sender waits for that.
  ~ReplicaRouter();

  // See AsyncEngine.
  scheduler::RequestId submit(std::vector<int32_t> prompt_token_ids,
                              const sampling::SamplingParams& params,
                              OnDelta on_delta,
                              scheduler::RequestOptions options,
                              TimePoint arrived);
  void abort(scheduler::RequestId id);
  [[nodiscard]] bool reset_prefix_cache();

  /// The state of each replica, as it last told.
  [[nodiscard]] std::vector<EngineStats> stats() const;
  /// All replicas as one.
  [[nodiscard]] EngineStats total_stats() const;

  /// Ends all unfinished requests, on all replicas. The local engine must still run.
  void end_requests();

 private:
  struct Live {
    int replica = 0;
    OnDelta on_delta;  // of a request elsewhere
    int32_t num_prompt_tokens = 0;
    int32_t num_output_tokens = 0;  // so far
  };
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] int least_loaded() const;
  [[nodiscard]] scheduler::RequestId submit_here(std::vector<int32_t> prompt_token_ids,
                                                 const sampling::SamplingParams& params,
                                                 OnDelta on_delta,
                                                 scheduler::RequestOptions options,
                                                 TimePoint arrived);
  void take(int from, std::span<const std::byte> message);
  void take_delta(engine::OutputDelta&& delta);
  void fail(const std::string& reason);
  void wait_until(const std::function<bool()>& condition);

  LoadedEngine* engine_;
  AsyncEngineLoop* local_;
  std::mutex reset_mutex_;  // held by the thread that resets the caches
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Live> live_;  // requests elsewhere, by scheduler::RequestId
  std::vector<int64_t> loads_;     // unfinished requests of each replica
  std::vector<EngineStats> stats_;
  int num_ready_ = 1;
  int num_stopped_ = 1;
  int num_cache_answers_ = 0;
  bool all_caches_reset_ = true;
  std::string failure_;
  mutable int next_ = 0;    // the first of equally loaded replicas
  MessageThread messages_;  // last: its thread uses all members above
};

/// The other side: loads the engine and answers the requests that the frontend sends, until the
/// frontend ends. \throws as load_engine, parallel::RankError
void serve_replica(const EngineArgs& args);

}  // namespace reprise::api
