#include "reprise/cli/compilation_text.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

namespace reprise::cli {
namespace {

using config::CompilationMode;

// Converts "name value" lines to an object of numbers.
template <typename Number>
Json to_json(std::string_view lines) {
  Json object = Json::object();
  for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const size_t space = line.find(' ');
    Number value{};
    std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    object[std::string(line.substr(0, space))] = value;
  }
  return object;
}

// The state of the compile cache with a leading separator; empty when no cache was used.
std::string cache_text(const api::StartupReport& report) {
  const compile::CompilationReport& compilation = report.compilation;
  if (compilation.cache_outcome.empty()) return {};
  if (report.resolved.compilation_mode != CompilationMode::VLLM_COMPILE) {
    return "; not cached, as only level 3 is";
  }
  if (compilation.cache_outcome == "hit") {
    return fmt::format("; compile cache hit: {}", compilation.cache_directory);
  }
  if (compilation.cache_saved == "saved") {
    return fmt::format("; compile cache miss ({}), saved", compilation.cache_outcome);
  }
  return fmt::format("; compile cache unused: {}", compilation.cache_outcome);
}

}  // namespace

std::string level_text(const api::StartupReport& report) {
  const CompilationMode level = report.resolved.compilation_mode;
  return fmt::format("{} {}", static_cast<int>(level), to_string(level));
}

std::string launches_text(const compile::CompilationReport& compilation) {
  const size_t compiled = compilation.compiled_launches;
  const size_t traced = compilation.traced_launches;
  if (traced == 0) return fmt::format("{} launches per decode step", compiled);
  const double ratio = static_cast<double>(compiled) / static_cast<double>(traced);
  return fmt::format(
      "{} launches per decode step instead of {} ({:+.0f} %)", compiled, traced, (ratio - 1) * 100);
}

std::string compilation_line(const api::StartupReport& report) {
  const compile::CompilationReport& compilation = report.compilation;
  if (report.resolved.compilation_mode == CompilationMode::NONE) {
    return "level 0 NONE: the model's own code runs, nothing is compiled";
  }
  if (!compilation.refused.empty()) {
    return fmt::format(
        "level {} was asked for, level 0 runs: {}", level_text(report), compilation.refused);
  }
  if (!compilation.guarded.empty()) {
    return fmt::format(
        "level {}, backend {}; each number of tokens is traced when it first comes: {}",
        level_text(report),
        compilation.backend,
        compilation.guarded);
  }
  return fmt::format("level {}, backend {}; {}{}",
                     level_text(report),
                     compilation.backend,
                     launches_text(compilation),
                     cache_text(report));
}

std::string compilation_details(const compile::CompilationReport& compilation) {
  const compile::CompilationCounter& counter = compilation.counter;
  const compile::CompilationSeconds& seconds = compilation.seconds;
  if (compilation.compiled_launches == 0) return {};
  std::string text;
  if (counter.num_piecewise_graphs_seen > 0) {
    text += fmt::format(
        "  {} pieces: {} compiled ({} unique), {} split points; {} row groups, {} generated "
        "kernels; "
        "{} bytes per token planned, {} alive at once\n",
        counter.num_piecewise_graphs_seen,
        counter.num_piecewise_capturable_graphs_seen,
        counter.num_unique_pieces,
        counter.num_piecewise_graphs_seen - counter.num_piecewise_capturable_graphs_seen,
        counter.num_fused_groups,
        counter.num_generated_kernels,
        compilation.planned_bytes_per_token,
        compilation.live_bytes_per_token);
  }
  text += fmt::format("  compiled in {:.4f} s:", seconds.total());
  for (const auto& [stage, value] : {std::pair{"trace", seconds.trace},
                                     std::pair{"split", seconds.split},
                                     std::pair{"passes", seconds.passes},
                                     std::pair{"plan", seconds.plan},
                                     std::pair{"codegen", seconds.codegen},
                                     std::pair{"cache load", seconds.cache_load},
                                     std::pair{"cache save", seconds.cache_save}}) {
    if (value != 0) text += fmt::format(" {} {:.4f}", stage, value);
  }
  return text + "\n";
}

Json compilation_to_json(const api::StartupReport& report) {
  const compile::CompilationReport& compilation = report.compilation;
  const bool runs = compilation.compiled_launches > 0 || !compilation.guarded.empty();
  const CompilationMode asked = report.resolved.compilation_mode;
  // An artifact contains the memory plan, but not the inputs of the plan.
  const bool is_planned_now = compilation.counter.num_graphs_seen > 0;
  const auto if_planned = [&](int64_t bytes) { return is_planned_now ? Json(bytes) : Json(); };
  return {{"level", static_cast<int>(runs ? asked : CompilationMode::NONE)},
          {"requested_level", static_cast<int>(asked)},
          {"mode", to_string(asked)},
          {"refused", compilation.refused.empty() ? Json() : Json(compilation.refused)},
          {"guarded", compilation.guarded.empty() ? Json() : Json(compilation.guarded)},
          {"backend", compilation.backend},
          {"cache",
           {{"outcome", compilation.cache_outcome},
            {"saved", compilation.cache_saved},
            {"directory", compilation.cache_directory}}},
          {"launches_per_step", compilation.compiled_launches},
          {"launches_per_step_traced", compilation.traced_launches},
          {"planned_bytes_per_token", if_planned(compilation.planned_bytes_per_token)},
          {"live_bytes_per_token", if_planned(compilation.live_bytes_per_token)},
          {"counters", to_json<uint64_t>(to_string(compilation.counter))},
          {"seconds", to_json<double>(to_string(compilation.seconds))}};
}

}  // namespace reprise::cli
