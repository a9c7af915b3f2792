#include "reprise/engine/step_trace.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <ostream>
#include <span>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::engine {
namespace {

using cudagraph::CudagraphRuntimeMode;

// Tracks, which trace viewers show as threads. A step that begins before the previous step has
// ended is drawn on the second track, because slices on one track must not overlap.
constexpr int kEngineTrack = 1;
constexpr int kAheadTrack = 2;

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// "FULL 8" means that the step replayed a FULL graph for 8 tokens.
std::string slice_name(const ProfiledStep& step) {
  return fmt::format("{} {}", to_string(step.decision.mode), step.decision.descriptor.num_tokens);
}

class TraceWriter {
 public:
  TraceWriter(const StepProfile& profile, std::ostream& out)
      : profile_(&profile), out_(&out), process_(getpid()) {}

  void write() {
    const auto wall_ms = std::chrono::floor<std::chrono::milliseconds>(profile_->wall_began);
    fmt::print(*out_,
               R"({{"displayTimeUnit":"ms","otherData":{{"began":"{:%FT%T}Z","num_steps":{},)"
               R"("num_overwritten_steps":{},"seconds":{:.6f}}},"traceEvents":[)"
               "\n",
               wall_ms,
               profile_->steps.size(),
               profile_->num_overwritten_steps,
               std::chrono::duration<double>(profile_->ended - profile_->began).count());
    name_track(kEngineTrack, "process_name", "reprise");
    *out_ << ",\n";
    name_track(kEngineTrack, "thread_name", "engine");
    for (const ProfiledStep& step : profile_->steps) {
      choose_track(step);
      write_step(step);
    }
    *out_ << "\n]}\n";
  }

 private:
  void choose_track(const ProfiledStep& step) {
    track_ = step.begin >= engine_track_ends_ ? kEngineTrack : kAheadTrack;
    if (track_ == kEngineTrack) {
      engine_track_ends_ = step.end;
    } else if (!std::exchange(has_ahead_track_, true)) {
      *out_ << ",\n";
      name_track(kAheadTrack, "thread_name", "engine, ahead");
    }
  }

  void name_track(int track, std::string_view what, std::string_view name) {
    fmt::print(*out_,
               R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
               what,
               process_,
               track,
               name);
  }

  void write_step(const ProfiledStep& step) {
    begin_slice(slice_name(step), "step", step.begin, step.end);
    const bool is_eager = step.decision.mode == CudagraphRuntimeMode::NONE;
    fmt::print(*out_,
               R"(,"args":{{"step":{},"runtime_mode":"{}","descriptor":"{}","reason":"{}",)"
               R"("tokens":{},"requests":{},"padding_tokens":{},"failed":{}}}}})",
               step.number,
               to_string(step.decision.mode),
               is_eager ? "none" : to_string(step.decision.descriptor),
               name(step.decision.reason),
               step.num_tokens,
               step.num_reqs,
               step.num_padding_tokens(),
               step.has_failed);
    for (const runner::PhaseSpan& span : std::span(step.spans).first(step.num_spans)) {
      begin_slice(runner::name(span.phase), "phase", span.begin, span.end);
      *out_ << '}';
    }
  }

  void begin_slice(std::string_view slice,
                   std::string_view kind,
                   runner::TimePoint begin,
                   runner::TimePoint end) {
    fmt::print(*out_,
               ",\n"
               R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})",
               slice,
               kind,
               process_,
               track_,
               microseconds(begin - profile_->began),
               microseconds(end - begin));
  }

  const StepProfile* profile_;
  std::ostream* out_;
  int process_;
  int track_ = kEngineTrack;  // the track of the current step
  runner::TimePoint engine_track_ends_;
  bool has_ahead_track_ = false;
};

}  // namespace

void write_trace(const StepProfile& profile, std::ostream& out) {
  TraceWriter(profile, out).write();
}

std::filesystem::path save_trace(const StepProfile& profile, const std::filesystem::path& folder) {
  const auto wall_us = std::chrono::floor<std::chrono::microseconds>(profile.wall_began);
  // Trace viewers search a folder for files with this ending.
  const std::filesystem::path path =
      folder /
      fmt::format("reprise_{}.{}.pt.trace.json", getpid(), wall_us.time_since_epoch().count());
  const std::filesystem::path draft = path.string() + ".part";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream file;
  if (!error) file.open(draft);
  if (file) write_trace(profile, file);
  file.close();
  if (file) std::filesystem::rename(draft, path, error);
  if (file && !error) return path;
  std::error_code ignored;
  std::filesystem::remove(draft, ignored);
  throw Error(
      fmt::format("the profile cannot be written to {}: {}; check that the folder can be "
                  "written and the disk has room",
                  folder.string(),
                  error ? error.message() : "writing failed"));
}

}  // namespace reprise::engine
