#include "reprise/api/loading/graph_trust.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/api/loading/draft_head.h"
#include "reprise/api/loading/draft_model.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/engine_record.h"
#include "reprise/api/options/cache_folders.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/runner/model_runner.h"
#include "reprise/runner/quarantine_report.h"

namespace reprise::api {
namespace {

constexpr std::string_view kShadow = "--shadow-check-rate";
constexpr std::string_view kStrict = "--strict-graphs";

[[noreturn]] void refuse(std::string_view option, std::string_view with, std::string_view why) {
  throw InvalidArgument(fmt::format(
      "{}: cannot be used with {}, because {}; leave one of the two out", option, with, why));
}

void refuse_lockstep(const EngineArgs& args, std::string_view option) {
  if (!args.is_in_lockstep()) return;
  refuse(option,
         args.shares_experts() ? "--enable-expert-parallel and --data-parallel-size"
                               : "--data-parallel-lockstep",
         "engines in lockstep would have to agree on each such step");
}

void check_strict(const EngineArgs& args, const ResolvedOptions& options) {
  refuse_lockstep(args, kStrict);
  if (options.graph_inputs.compilation.cudagraph_lazy_capture) {
    refuse(kStrict, "cudagraph_lazy_capture", "a batch may come before the graph of its size");
  }
  if (has_draft_model(options)) {
    refuse(kStrict,
           "a draft model or a draft head",
           "a step of the drafter that fails only makes fewer drafts");
  }
  const config::ResolvedConfig& graphs = options.graphs;
  if (!graphs.requested || *graphs.requested == graphs.mode) return;
  std::vector<std::string> reasons;
  for (const config::ResolutionReason& reason : graphs.reasons) {
    if (reason.before != reason.after) reasons.push_back(reason.text);
  }
  throw InvalidArgument(
      fmt::format("{}: cudagraph_mode {} was asked for, and this engine would "
                  "run {}: {}; ask for a mode that it can have",
                  kStrict,
                  to_string(*graphs.requested),
                  to_string(graphs.mode),
                  fmt::join(reasons, "; ")));
}

std::filesystem::path report_folder(const EngineArgs& args) {
  if (!args.graph_report_dir.empty()) return args.graph_report_dir;
  const std::filesystem::path root = compile_cache_root(args.compile_cache_root);
  return root.empty() ? root : root.parent_path() / "graph-reports";
}

/// The options that decide about an engine's graphs; args_of_report() reads them.
Json describe(const LoadedEngine& engine) {
  const EngineArgs& args = engine.args;
  Json json = {{"version", args.program_version},
               {"device", engine.report.device},
               {"is_draft_head", engine.options->draft_head.has_value()},
               {"rank", args.ranks == nullptr ? 0 : args.ranks->rank()},
               {"cudagraph_mode", to_string(engine.options->graphs.mode)},
               {"compilation_level", config::to_string(engine.options->graphs.compilation_mode)}};
  json["options"] = args_to_json(engine);
  return json;
}

}  // namespace

void check_graph_trust(const EngineArgs& args, ResolvedOptions& options) {
  if (args.strict_graphs) check_strict(args, options);
  if (!(args.shadow_check_rate >= 0 && args.shadow_check_rate <= 1)) {
    throw InvalidArgument(
        fmt::format("{}: expected 0 to 1, got {}", kShadow, args.shadow_check_rate));
  }
  if (args.shadow_check_rate == 0) return;
  refuse_lockstep(args, kShadow);
  if (options.graphs.mode == cudagraph::CudagraphMode::NONE) {
    options.warnings.push_back(
        fmt::format("{} has no effect: this engine replays no graphs", kShadow));
  }
}

void require_memory_for_graphs(const StartupReport& report) {
  const std::vector<cudagraph::CaptureRecord>& records = report.capture.records;
  const auto failed = std::ranges::find_if(records, &cudagraph::CaptureRecord::is_out_of_memory);
  if (failed == records.end()) return;
  throw OutOfMemory(
      fmt::format("the graphs do not fit beside the weights and the largest step: {} of {} were "
                  "captured, {} [{}] was not: {}; give a smaller --max-cudagraph-capture-size or "
                  "--max-num-batched-tokens, or a smaller model",
                  report.capture.num_captured(),
                  records.size(),
                  to_string(failed->mode),
                  to_string(failed->descriptor),
                  failed->failure));
}

void require_all_graphs(const EngineArgs& args, const StartupReport& report) {
  if (!args.strict_graphs) return;
  std::vector<std::string> missing;
  for (const cudagraph::CaptureRecord& record : report.capture.records) {
    if (record.failure.empty()) continue;
    missing.push_back(fmt::format(
        "{} [{}]: {}", to_string(record.mode), to_string(record.descriptor), record.failure));
  }
  if (missing.empty()) return;
  throw Error(fmt::format("{}: {} graphs could not be captured: {}",
                          kStrict,
                          missing.size(),
                          fmt::join(missing, "; ")));
}

runner::ShadowCheckOptions shadow_check_options(const LoadedEngine& engine) {
  const EngineArgs& args = engine.args;
  return {.rate = args.shadow_check_rate,
          .report_folder = report_folder(args),
          .about = describe(engine),
          .log = args.log_line};
}

EngineArgs args_of_report(const std::filesystem::path& path) {
  const runner::SavedStep step(path);
  try {
    const Json& engine = step.report().at("engine");
    if (engine.at("is_draft_head").get<bool>()) {
      throw FileError("E_REPORT",
                      path.string(),
                      "engine",
                      "is of a draft head, which does not run without its main model; the report "
                      "itself names the first wrong node");
    }
    return args_from_json(engine.at("options"));
  } catch (const Json::exception& error) {
    throw FileError("E_REPORT", path.string(), "engine", error.what());
  }
}

runner::WrongNode bisect_report(const std::filesystem::path& path, const EngineArgs& args) {
  runner::SavedStep step(path);
  if (step.decision().descriptor.has_lora) {
    throw FileError("E_REPORT",
                    path.string(),
                    "requests",
                    "have adapters, which a report does not hold; the report itself names the "
                    "first wrong node");
  }
  EngineArgs engine_args = args;
  engine_args.shadow_check_rate = 1;  // captures are noted, and no step runs
  const std::unique_ptr<LoadedEngine> engine = load_engine(engine_args);
  runner::ModelRunner& runner = *engine->runner;
  const cudagraph::Decision& decision = step.decision();
  if (!runner.dispatcher().is_captured(decision.mode, decision.descriptor)) {
    throw InvalidArgument(
        fmt::format("{}: this engine has no graph {} [{}]; give the options of the report",
                    path.string(),
                    to_string(decision.mode),
                    to_string(decision.descriptor)));
  }
  step.load_into(runner.shadow()->memory(), runner.execution().stream());
  return runner.find_wrong_node(step.requests(), decision);
}

}  // namespace reprise::api
