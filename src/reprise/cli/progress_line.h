#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::cli {

enum class ProgressUnit : uint8_t { count, bytes };

/// The progress of a long work: "[######..] 3/12  1.5/s  6 s left", or with bytes "1.2 GiB of 4.0
/// GiB". The rate and the time left are added when a second has passed and there is work left.
[[nodiscard]] std::string progress_text(uint64_t done,
                                        uint64_t total,
                                        std::chrono::duration<double> passed,
                                        ProgressUnit unit);

/// The last line of a terminal, drawn again as a work goes on: at most ten times a second, because
/// a work may have thousands of steps. Not shown if standard error is not a terminal, or if
/// VLLM_LOGGING_LEVEL leaves out such messages. One thread at a time.
class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  /// `title`: "Loading weights". \throws InvalidArgument for a wrong VLLM_LOGGING_LEVEL
  explicit ProgressLine(std::string title, ProgressUnit unit = ProgressUnit::count);
  /// For tests: a line that is always shown. `file` is borrowed.
  ProgressLine(std::string title,
               ProgressUnit unit,
               std::FILE* file,
               std::function<Clock::time_point()> now);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Clears the line if it is still there.
  ~ProgressLine() { clear(); }

  /// `detail` is the end of the line. The line is cleared when all work is done.
  void update(uint64_t done, uint64_t total, std::string_view detail = {});
  void clear();

 private:
  void draw(std::string_view text);

  std::string title_;
  ProgressUnit unit_;
  std::FILE* file_;  // null: not shown
  std::function<Clock::time_point()> now_;
  Clock::time_point began_;
  std::optional<Clock::time_point> drawn_at_;
  bool is_drawn_ = false;
};

}  // namespace reprise::cli
