#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/request_options.h"
#include "reprise/speculative/draft_gate.h"

namespace reprise::scheduler {

class Request;
class Scheduler;

/// vLLM's RequestStatus. A request goes waiting -> running <-> preempted, and from any of these to
/// one finished_* status, which is final.
enum class RequestStatus : uint8_t {
  waiting,
  running,
  preempted,         // the request lost its blocks and waits to be recomputed
  finished_stopped,  // EOS, stop token or stop string
  finished_length,   // max_tokens or the context is full
  finished_aborted,
  finished_error,
};
[[nodiscard]] constexpr bool is_finished(RequestStatus status) noexcept {
  return status >= RequestStatus::finished_stopped;
}
[[nodiscard]] std::string_view to_string(RequestStatus status);
/// "stop", "length", "abort", "error"; empty while not finished.
[[nodiscard]] std::string_view finish_reason(RequestStatus status);

/// The place of a request in the waiting queue.
struct WaitState {
  uint64_t arrival_order = 0;
  uint64_t queued_at_step = 0;    // when the request last began to wait
  uint64_t num_steps_waited = 0;  // steps waited before queued_at_step
  bool is_promoted = false;
  Request* prev = nullptr;  // links of the waiting queue, owned by RequestQueue
  Request* next = nullptr;
};

/// The cache memory of a request.
struct CacheState {
  kv_cache::BlockTable block_table;
  kv_cache::BlockHashChain block_hashes;  // the hashes of the blocks of the known tokens
  // Where the states for the next step come from, and where the cached blocks without states end.
  kv_cache::StateSlot restored_state = kv_cache::kNullStateSlot;
  int shared_prefix_boundary = 0;
  // The block of the last snapshot after the prompt. The next such snapshot replaces it.
  std::optional<kv_cache::BlockHash> answer_snapshot;
  int num_cached_tokens = 0;
  int num_imported_tokens = 0;
  int first_imported_token = -1;  // of the next step: see StepEntry
};

/// The scheduler's data about a request. Only the scheduler and its parts change it. All other code
/// reads it through the functions of Request, which explain it.
struct RequestState {
  RequestStatus status = RequestStatus::waiting;
  StopReason stop_reason;
  std::string error;
  ErrorKind error_kind = ErrorKind::internal;
  WaitState wait;
  CacheState cache;

  std::vector<int32_t> token_ids;  // the last num_placeholders tokens are not known yet
  int num_placeholders = 0;
  speculative::DraftGate draft_gate;
  bool is_postponed = false;  // the request's last step was to sample a token, but did not
  int num_computed_tokens = 0;
  int num_prefill_tokens = 0;
  int max_total_tokens = 0;
  int num_prompt_logits_scheduled = 0;
  std::vector<int32_t> all_stop_token_ids;  // EOS and stop_token_ids: suppressed below min_tokens
  int num_preemptions = 0;
  const Scheduler* scheduler = nullptr;  // the scheduler that knows this request, if any
  int num_steps_in_flight = 0;           // scheduled, but without results yet

  /// Appends placeholders with these contents. \pre Scheduler::add_request() has reserved the
  /// memory
  void add_placeholders(std::span<const int32_t> contents);
  /// Removes the last placeholders. \pre the request has at least `count` of them
  void drop_placeholders(int count);
};

}  // namespace reprise::scheduler
