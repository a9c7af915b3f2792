#include "reprise/cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reprise/cli/log_environment.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/terminal.h"

namespace reprise::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenDraws{100};
constexpr double kRateAfterSeconds = 1;  // a rate of less time says little

std::string bar(uint64_t done, uint64_t total) {
  constexpr uint64_t kWidth = 20;
  const uint64_t filled = total == 0 ? kWidth : std::min(kWidth, done * kWidth / total);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", kWidth - filled);
}

/// "45 s", "3:07", "1:02:03"
std::string duration_text(double seconds) {
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  const int64_t whole = std::llround(seconds);
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{}:{:02}", whole / kMinute, whole % kMinute);
  return fmt::format("{}:{:02}:{:02}", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

std::FILE* terminal_of_messages() {
  return isatty(STDERR_FILENO) != 0 && log_level_of_environment() <= LogLevel::info ? stderr
                                                                                    : nullptr;
}

}  // namespace

std::string progress_text(uint64_t done,
                          uint64_t total,
                          std::chrono::duration<double> passed,
                          ProgressUnit unit) {
  const bool is_bytes = unit == ProgressUnit::bytes;
  std::string text =
      is_bytes
          ? fmt::format("{} {} of {}", bar(done, total), format_bytes(done), format_bytes(total))
          : fmt::format("{} {}/{}", bar(done, total), done, total);
  if (passed.count() < kRateAfterSeconds || done == 0 || done >= total) return text;
  const double rate = static_cast<double>(done) / passed.count();
  const std::string rate_text =
      is_bytes ? format_bytes(static_cast<size_t>(rate)) : fmt::format("{:.1f}", rate);
  return fmt::format("{}  {}/s  {} left",
                     text,
                     rate_text,
                     duration_text(static_cast<double>(total - done) / rate));
}

ProgressLine::ProgressLine(std::string title, ProgressUnit unit)
    : ProgressLine(std::move(title), unit, terminal_of_messages(), Clock::now) {}

ProgressLine::ProgressLine(std::string title,
                           ProgressUnit unit,
                           std::FILE* file,
                           std::function<Clock::time_point()> now)
    : title_(std::move(title)), unit_(unit), file_(file), now_(std::move(now)), began_(now_()) {}

void ProgressLine::update(uint64_t done, uint64_t total, std::string_view detail) {
  if (file_ == nullptr) return;
  if (done >= total) return clear();
  const Clock::time_point now = now_();
  if (drawn_at_ && now - *drawn_at_ < kBetweenDraws) return;
  drawn_at_ = now;
  draw(fmt::format("{}: {}{}{}",
                   title_,
                   progress_text(done, total, now - began_, unit_),
                   detail.empty() ? "" : "  ",
                   detail));
}

void ProgressLine::clear() {
  if (!std::exchange(is_drawn_, false)) return;
  fmt::print(file_, "\r\033[K");
  std::fflush(file_);
}

/// The text stays shorter than the terminal's width, because a wrapped line could not be replaced.
void ProgressLine::draw(std::string_view text) {
  is_drawn_ = true;
  fmt::print(file_, "\r\033[K{}", cut(text, terminal_width(::fileno(file_), 80) - 1));
  std::fflush(file_);
}

}  // namespace reprise::cli
