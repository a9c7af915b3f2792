#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/api/graphs/graph_change_stats.h"
#include "reprise/api/loading/sleep.h"
#include "reprise/base/histogram.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/kv_cache/transfer/kv_transfer_counts.h"
#include "reprise/replay_log/log_counts.h"
#include "reprise/runner/step_times.h"
#include "reprise/speculative/speculation_stats.h"

namespace reprise::api {

using TimePoint = std::chrono::steady_clock::time_point;

/// vLLM's buckets, because users' dashboards and alerts expect them.
namespace buckets {
inline constexpr auto kTimeToFirstToken =
    std::to_array<double>({.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                           1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560});
inline constexpr auto kTimePerToken = std::to_array<double>(
    {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80});
inline constexpr auto kRequestTime = std::to_array<double>(
    {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680});
inline constexpr auto kTokensPerStep =
    std::to_array<double>({1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384});
/// For token counts of a request; a histogram uses the bounds up to the model's length.
inline constexpr auto kOneTwoFive = std::to_array<double>(
    {1,    2,     5,     10,    20,     50,     100,    200,     500,     1000,    2000,
     5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000});
/// For the number of answers to one prompt.
inline constexpr auto kAnswers = std::to_array<double>({1, 2, 5, 10, 20});
}  // namespace buckets

/// Histograms of the durations (in seconds) and sizes of requests. Whole-request values are
/// recorded only for requests that end by themselves ("stop", "length"): aborted requests would
/// distort them.
struct RequestHistograms {
  Histogram time_to_first_token{buckets::kTimeToFirstToken};  // from arrival
  Histogram inter_token_latency{buckets::kTimePerToken};      // between two tokens of a request
  Histogram time_per_output_token{buckets::kTimePerToken};  // mean of a request, without its first
  Histogram e2e_latency{buckets::kRequestTime};             // from its arrival to its last token
  Histogram queue_time{buckets::kRequestTime};  // from arrival at the engine to the first schedule
  Histogram prefill_time{buckets::kRequestTime};    // from the first schedule to the first token
  Histogram decode_time{buckets::kRequestTime};     // from the first to the last token
  Histogram inference_time{buckets::kRequestTime};  // prefill and decode
  Histogram prompt_tokens{buckets::kOneTwoFive};
  Histogram generation_tokens{buckets::kOneTwoFive};
  Histogram params_max_tokens{buckets::kOneTwoFive};        // of requests that have a max_tokens
  Histogram prefill_computed_tokens{buckets::kOneTwoFive};  // prompt tokens without cached ones

  RequestHistograms() = default;
  /// The bounds of token counts end at `max_model_len`, as in vLLM.
  explicit RequestHistograms(int64_t max_model_len);
};

/// One step, for the chat page's view of the running engine.
struct StepRecord {
  uint64_t index = 0;  // 1 is the first step
  cudagraph::CudagraphRuntimeMode mode = cudagraph::CudagraphRuntimeMode::NONE;
  cudagraph::BatchDescriptor descriptor;
  cudagraph::DispatchReason reason = cudagraph::DispatchReason::not_initialised;
  int32_t num_tokens = 0;  // before padding
  int32_t num_reqs = 0;
  double seconds = 0;
};
inline constexpr size_t kNumStepRecords = 64;

/// Comparisons of replays with eager runs (--shadow-check-rate).
struct ShadowStats {
  struct Quarantined {
    cudagraph::CudagraphRuntimeMode mode = cudagraph::CudagraphRuntimeMode::NONE;
    cudagraph::BatchDescriptor descriptor;
    std::string difference;
    std::string wrong_node;
    std::string report;  // the path of the file; empty: none was written
  };
  uint64_t num_checks = 0;
  uint64_t num_differences = 0;
  uint64_t keys_revision = 0;            // see runner::ShadowCheck
  std::vector<Quarantined> quarantined;  // in the order in which they were found
};

/// The names of the adapters of unfinished requests, each once.
struct AdapterStats {
  int32_t max_loras = 0;             // 0: the engine has no adapters
  std::vector<std::string> running;  // of requests that take part in steps
  std::vector<std::string> waiting;  // of requests that wait for their first step
  double at = 0;                     // seconds since 1970
};

/// The state of the engine between two steps. A request counts as finished before its last delta is
/// delivered.
struct EngineStats {
  int64_t num_requests_running = 0;
  int64_t num_requests_waiting = 0;
  double kv_cache_usage = 0;   // 0..1, of the blocks that requests can use
  uint64_t prompt_tokens = 0;  // of requests that got their first token; each request counts once
  // The part of prompt_tokens that was found in a cache and not computed.
  uint64_t prompt_tokens_cached = 0;
  // Prompt tokens that the cache of another engine had, among these.
  uint64_t prompt_tokens_imported = 0;
  std::optional<kv_cache::KvTransferCounts> kv_transfer;  // unset without --kv-transfer-config
  uint64_t generation_tokens = 0;                         // sampled since the start
  // Tokens sampled ahead for requests that had ended; the counts above do not include them.
  uint64_t dropped_tokens = 0;
  uint64_t postponed_tokens = 0;      // got in a later step (EngineCoreCounters)
  uint64_t prefix_cache_queries = 0;  // tokens looked up, and found
  uint64_t prefix_cache_hits = 0;
  // Copies of states of recurrent layers that cached prefixes hold now.
  int64_t cached_states = 0;
  uint64_t states_saved = 0;  // copied into the cache
  // States copied out of the cache, for requests whose prefix was found.
  uint64_t states_restored = 0;
  // Counts of the tokens of experts, if they are counted: by layer, then by expert.
  std::vector<int32_t> expert_layers;
  std::vector<uint64_t> expert_tokens;
  uint64_t kv_event_payloads_sent = 0;              // steps whose cache events went to subscribers
  uint64_t kv_event_payloads_dropped = 0;           // ... and those that did not
  uint64_t kv_event_payloads_missed = 0;            // sent, but not to a slow subscriber
  std::optional<replay_log::LogCounts> replay_log;  // unset without --replay-log
  uint64_t num_preemptions = 0;
  speculative::SpeculationStats speculation;
  uint64_t num_steps = 0;  // computed steps; failed steps do not count
  uint64_t num_failed_steps = 0;
  uint64_t num_finished_stop = 0;
  uint64_t num_finished_length = 0;
  uint64_t num_finished_abort = 0;
  uint64_t num_finished_error = 0;
  uint64_t steps_full = 0;  // steps replayed as FULL, replayed as PIECEWISE, and run eagerly
  uint64_t steps_piecewise = 0;
  uint64_t steps_eager = 0;
  uint64_t padding_tokens = 0;
  bool is_dead = false;                   // the device is lost, so no request can run
  std::optional<SleepLevel> sleep_level;  // unset while the engine is awake

  AdapterStats adapters;
  std::vector<cudagraph::DispatchLedger::DecisionCount> decisions;
  std::vector<cudagraph::DispatchLedger::DecisionCount> draft_decisions;  // of the draft model
  uint64_t num_retired_graphs = 0;         // since the start of serving
  std::optional<GraphChangeStats> graphs;  // unset for an engine in another process
  ShadowStats shadow;
  ShadowStats draft_shadow;  // of the draft model
  runner::StepTimes step_times;
  Histogram tokens_per_step{buckets::kTokensPerStep};
  RequestHistograms requests;
  /// The last steps; step i is at index i % kNumStepRecords.
  std::array<StepRecord, kNumStepRecords> recent_steps{};
};

}  // namespace reprise::api
