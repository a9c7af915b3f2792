#pragma once

#include <filesystem>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/shadow_check.h"

/// How an engine makes sure that its graphs are right: comparisons of replays with eager runs
/// (--shadow-check-rate), and the promise that no step leaves its graph (--strict-graphs).
namespace reprise::api {

/// Checks that need no device. Adds warnings of options without effect. \throws InvalidArgument
/// that names the option and the setting that it cannot be used with, or with --strict-graphs a
/// requested mode that the engine cannot have
void check_graph_trust(const EngineArgs& args, ResolvedOptions& options);

/// With --strict-graphs: refuses a start whose memory does not hold every graph. Such a start would
/// have no memory for a useful cache either, and would run batches of that key eagerly. \throws
/// OutOfMemory that names the first key that did not fit
void require_memory_for_graphs(const StartupReport& report);

/// With --strict-graphs: checks that every planned graph was captured. \throws Error that names the
/// keys that were not, and why
void require_all_graphs(const EngineArgs& args, const StartupReport& report);

/// The options of the shadow check for the runner of this model.
[[nodiscard]] runner::ShadowCheckOptions shadow_check_options(const LoadedEngine& engine);

/// The options of the engine that wrote a report, as far as they decide about its graphs.
/// \throws FileError E_REPORT
[[nodiscard]] EngineArgs args_of_report(const std::filesystem::path& report);

/// Repeats the step of a report in a new engine with these options, and finds the first wrong node.
/// \throws FileError, InvalidArgument, and as load_engine()
[[nodiscard]] runner::WrongNode bisect_report(const std::filesystem::path& report,
                                              const EngineArgs& args);

}  // namespace reprise::api
