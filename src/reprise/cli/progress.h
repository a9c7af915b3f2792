#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/api/options/startup_report.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/progress_line.h"

namespace reprise::api {
class LLM;
}

namespace reprise::cli {

/// Shows the progress of a start on stderr: a progress bar on a terminal, plain lines elsewhere.
class StartupProgress {
 public:
  /// `verbose`: one line per captured key. VLLM_LOGGING_LEVEL decides what else is shown. \throws
  /// InvalidArgument
  explicit StartupProgress(bool verbose)
      : least_(log_level_of_environment()), verbose_(verbose || least_ == LogLevel::debug) {}

  [[nodiscard]] api::StartupObserver observer();
  /// Prints warnings, the compilation, the resolved mode with its reasons, and one line on time and
  /// memory.
  void summarize(api::LLM& llm) const;

 private:
  using Clock = std::chrono::steady_clock;

  void on_stage(std::string_view name);
  void on_weights(uint64_t done, uint64_t total);
  void on_capture(const cudagraph::CaptureRecord& record, size_t done, size_t total);

  LogLevel least_;
  bool verbose_;
  Clock::time_point began_ = Clock::now();
  // How many quarters of the weights have been reported so far; used when stderr is not a terminal.
  uint64_t quarters_told_ = 0;
  std::optional<ProgressLine> weights_;
  std::optional<ProgressLine> graphs_;
};

/// Prints the warnings of a start, and why it does not use the GPU of this machine, as far as
/// VLLM_LOGGING_LEVEL lets them through.
/// \throws InvalidArgument
void print_warnings(const api::StartupReport& report);

/// "1.2 MiB"
[[nodiscard]] std::string format_bytes(size_t bytes);

}  // namespace reprise::cli
