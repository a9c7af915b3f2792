#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

struct GenerationRequest;

/// The options of --enable-log-requests, which logs the parameters of each request. The log
/// contains user text only on demand: prompts at the debug level, answers with
/// --enable-log-outputs.
struct RequestLogOptions {
  bool is_enabled = false;
  bool with_prompts = false;
  bool with_outputs = false;
  int64_t max_log_len = -1;  // limit in characters or token ids per text; -1: no limit
};

/// The part of one answer that its log line shows.
class LoggedOutput {
 public:
  void add(const RequestLogOptions& options, std::string_view text, std::span<const int32_t> ids);
  [[nodiscard]] std::string line(std::string_view id,
                                 int choice,
                                 std::string_view finish_reason) const;

 private:
  std::string text_;
  std::vector<int32_t> token_ids_;
};

[[nodiscard]] std::string request_log_line(const RequestLogOptions& options,
                                           std::string_view id,
                                           const GenerationRequest& request);

}  // namespace reprise::server
