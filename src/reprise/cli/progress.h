#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reprise/api/llm.h"

namespace reprise::cli {

/// Start-up as people see it, on stderr: a progress bar on a terminal, plain lines elsewhere.
class StartupProgress {
 public:
  /// `verbose`: one line per captured key.
  explicit StartupProgress(bool verbose) : verbose_(verbose) {}

  [[nodiscard]] api::StartupObserver observer();
  /// Warnings, what was compiled, the resolved mode with its reasons, and one line on time and
  /// memory.
  void summarize(api::LLM& llm) const;

 private:
  static void on_stage(std::string_view name);
  void on_capture(const cudagraph::CaptureRecord& record, size_t done, size_t total) const;

  bool verbose_;
};

/// "1.2 MiB"
[[nodiscard]] std::string format_bytes(size_t bytes);

}  // namespace reprise::cli
