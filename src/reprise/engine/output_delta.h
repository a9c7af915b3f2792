#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/sampling/logprobs.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::engine {

/// The tokens and the text that one step added to one request, on their way from the engine to the
/// caller. A value that owns its contents, so it may cross threads.
struct OutputDelta {
  RequestId id{};
  std::string text;                // may be empty: held back, or an incomplete character
  std::vector<int32_t> token_ids;  // of this step
  std::vector<sampling::PositionLogprobs> logprobs;  // of token_ids; empty unless asked for
  /// For prompt tokens 1, 2, ...; with the first delta that has a token; empty unless asked for.
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;  // so far
  int32_t num_cached_tokens = 0;  // prompt tokens found in the prefix cache, so not computed
  bool finished = false;          // this is the request's last delta
  // Set when `finished`:
  std::string finish_reason;  // "stop", "length", "abort", "error"
  StopReason stop_reason;     // the reason that stopped it, other than EOS
  std::string error;          // why finish_reason is "error"
  ErrorKind error_kind = ErrorKind::internal;
};

}  // namespace reprise::engine
