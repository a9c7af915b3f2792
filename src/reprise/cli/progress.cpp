#include "reprise/cli/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "reprise/api/llm.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/memory_bill_text.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cli/terminal.h"

namespace reprise::cli {
namespace {

bool is_terminal() { return isatty(STDERR_FILENO) != 0; }

/// Replaces the last line of the terminal. The text stays shorter than the terminal's width,
/// because a wrapped line could not be replaced.
void show_line(std::string_view text) {
  print_error("\r\033[K{}", cut(text, terminal_width(STDERR_FILENO, 80) - 1));
  std::fflush(stderr);
}

void print_ladder(const cudagraph::LadderReport& ladder, bool with_dropped_keys) {
  print_error("capture sizes measured: {}\n", ladder.describe());
  if (!with_dropped_keys) return;
  for (const cudagraph::MeasuredKey& key : ladder.keys) {
    if (key.is_kept()) continue;
    print_error("dropped  {:<9} [{}] {}\n",
                to_string(key.key.mode),
                to_string(key.key.descriptor),
                key.dropped_because);
  }
}

}  // namespace

void print_warnings(const api::StartupReport& report) {
  if (log_level_of_environment() > LogLevel::warning) return;
  for (const std::string& warning : report.warnings) print_error("warning: {}\n", warning);
  if (log_level_of_environment() > LogLevel::info || report.device_reason.empty()) return;
  print_error("{}\n", report.device_reason);
}

std::string format_bytes(size_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

api::StartupObserver StartupProgress::observer() {
  return {.on_capture = [this](const cudagraph::CaptureRecord& record,
                               size_t done,
                               size_t total) { on_capture(record, done, total); },
          .on_stage = [this](std::string_view name) { on_stage(name); },
          .on_weights = [this](uint64_t done, uint64_t total) { on_weights(done, total); }};
}

// The current stage is shown only on a terminal; a log would fill with lines.
void StartupProgress::on_stage(std::string_view name) {
  weights_.reset();  // tied weights are not read, so the last update may have been below 100 %
  if (!is_terminal() || least_ > LogLevel::info) return;
  show_line(name == "graphs" ? "" : fmt::format("Starting: {} ...", name));
}

void StartupProgress::on_weights(uint64_t done, uint64_t total) {
  if (least_ > LogLevel::info) return;
  if (is_terminal()) {
    if (!weights_) weights_.emplace("Loading weights", ProgressUnit::bytes);
    return weights_->update(done, total);
  }
  // A model that loads faster than this shows no progress lines.
  constexpr auto kPatience = std::chrono::seconds(2);
  const uint64_t quarters = 4 * done / std::max<uint64_t>(total, 1);
  if (quarters <= quarters_told_ || Clock::now() - began_ < kPatience) return;
  quarters_told_ = quarters;
  print_error(
      "Loading weights: {} % ({} of {})\n", 25 * quarters, format_bytes(done), format_bytes(total));
}

void StartupProgress::on_capture(const cudagraph::CaptureRecord& record,
                                 size_t done,
                                 size_t total) {
  const LogLevel level = record.failure.empty() ? LogLevel::info : LogLevel::warning;
  if (level < least_) return;
  if (verbose_ || !record.failure.empty()) {
    print_error("captured {:<9} [{}] {:.1f} ms {}{}{}\n",
                to_string(record.mode),
                to_string(record.descriptor),
                record.seconds * 1e3,
                format_bytes(record.bytes),
                record.verdict == cudagraph::CaptureVerdict::unchecked
                    ? ""
                    : fmt::format(" {}", to_string(record.verdict)),
                record.failure.empty() ? "" : "; retired: " + record.failure);
    return;
  }
  if (!graphs_) graphs_.emplace("Capturing CUDA graphs");
  graphs_->update(done,
                  total,
                  fmt::format("{} {}, {} tokens",
                              to_string(record.mode),
                              record.descriptor.uniform ? "decode" : "mixed",
                              record.descriptor.num_tokens));
}

void StartupProgress::summarize(api::LLM& llm) const {
  const api::StartupReport& report = llm.startup_report();
  print_warnings(report);
  if (least_ > LogLevel::info) return;
  print_error("{:.1f} M parameters ({}, {}) on {}; kernels: {}\n",
              static_cast<double>(report.num_parameters) / 1e6,
              report.dtype,
              format_bytes(report.weight_bytes),
              report.device,
              report.cpu_isa);
  if (verbose_) {
    print_error("{}\n{}", compilation_line(report), compilation_details(report.compilation));
    for (const config::ResolutionReason& reason : report.resolved.reasons) {
      print_error("  {}: {}\n", reason.rule, reason.text);
    }
  }
  if (!report.packed_weights.empty()) {
    print_error("packed weights: {}\n", report.packed_weights);
  }
  print_error("cudagraph_mode {}; graph capturing finished in {:.3f} s, {} keys took {}\n",
              to_string(report.resolved.mode),
              report.capture.seconds,
              report.capture.num_captured(),
              format_bytes(report.graph_bytes));
  if (report.capture.ladder) print_ladder(*report.capture.ladder, verbose_);
  if (const std::string verdicts = report.capture.describe_verdicts(); !verdicts.empty()) {
    print_error("graphs verified: {} ({:.3f} s)\n", verdicts, report.capture.verify_seconds());
  }
  if (!report.capture.violation.empty()) {
    print_error("warning: {}\n", report.capture.violation);
  }
  print_error(
      "KV cache {} blocks of {} tokens, max_model_len {}; ready in {:.3f} s "
      "(tokenizer {:.3f}, weights {:.3f}, compile {:.3f}, capture {:.3f})\n",
      report.num_kv_blocks,
      report.kv_block_size,
      report.max_model_len,
      report.total_seconds,
      report.tokenizer_seconds,
      report.weights_seconds,
      report.compile_seconds,
      report.capture.seconds);
  if (verbose_) {
    print_error("{}\n", fmt::join(memory_bill_lines(api::memory_bill(report)), "\n"));
  }
  if (least_ == LogLevel::debug) print_error("memory bill {}\n", to_json(report).dump());
}

}  // namespace reprise::cli
