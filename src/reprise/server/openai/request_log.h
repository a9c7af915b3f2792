#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

struct GenerationRequest;

/// What --enable-log-requests says of one request: its parameters. Text of users is in only where
/// it is asked for: prompts when the log is for debugging, answers by --enable-log-outputs.
struct RequestLogOptions {
  bool is_enabled = false;
  bool with_prompts = false;
  bool with_outputs = false;
  int64_t max_log_len = -1;  // characters, or token ids, of each; -1: all
};

/// As much of one answer as its line shows.
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
