#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/sampling/logprobs.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::engine {

/// The times at which a request that got a token passed through the engine. A preemption changes
/// none of them.
struct RequestTimes {
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint arrived;      // the caller got the request
  TimePoint queued;       // the engine got it
  TimePoint scheduled;    // its first step began
  TimePoint first_token;  // that token's step ended
  TimePoint last_token;
};

/// The tokens and the text that one step added to one request, passed from the engine to the
/// caller. It owns all its data, so it may be moved to another thread.
struct OutputDelta {
  scheduler::RequestId id{};
  std::string text;  // may be empty: text may be held back, or a character may be incomplete
  std::vector<int32_t> token_ids;  // of this step
  // Log-probabilities of token_ids; empty unless the request asked for them.
  std::vector<sampling::PositionLogprobs> logprobs;
  /// Log-probabilities of prompt tokens 1, 2, ... (none exists for token 0). Part of the first
  /// delta with a token; empty unless the request asked for them.
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  std::vector<float> pooled;  // the vector of a pooling model; part of the last delta
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;    // so far
  int32_t num_cached_tokens = 0;    // prompt tokens that were not computed: see Request
  int32_t num_imported_tokens = 0;  // those of num_cached_tokens that came from another engine
  bool finished = false;            // this is the request's last delta
  // Set when `finished`:
  std::string finish_reason;          // "stop", "length", "abort", "error"
  scheduler::StopReason stop_reason;  // what stopped the request, unless it was EOS
  std::string error;                  // the reason, if finish_reason is "error"
  scheduler::ErrorKind error_kind = scheduler::ErrorKind::internal;
  std::optional<RequestTimes> times;  // unset for a request that another process computed
};

}  // namespace reprise::engine
