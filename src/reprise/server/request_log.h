#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reprise/server/generation_request.h"

namespace reprise::server {

/// What --enable-log-requests says of one request: its parameters, never its text. `prompts` are
/// left out unless the log is for debugging; then at most `max_log_len` characters of each are in.
struct RequestLogOptions {
  bool is_enabled = false;
  bool with_prompts = false;
  int64_t max_log_len = -1;  // -1: all of it
};

[[nodiscard]] std::string request_log_line(const RequestLogOptions& options,
                                           std::string_view id,
                                           const GenerationRequest& request);

}  // namespace reprise::server
