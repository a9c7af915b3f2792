#include "reprise/api/graphs/graph_microscope.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"
#include "reprise/runner/graph_profiler.h"
#include "reprise/runner/memory_roof.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {
namespace {

[[noreturn]] void refuse_profile(std::string_view what, std::string_view why) {
  throw InvalidArgument(fmt::format("the graphs of {} cannot be replayed alone: {}", what, why));
}

EngineArgs with_inventory(const EngineArgs& args) {
  require_profilable(args);
  EngineArgs changed = args;
  changed.keep_graph_inventory = true;
  // With verification, memory has names.
  if (changed.verify_graphs == "off") changed.verify_graphs = "capture";
  return changed;
}

runner::GraphProfilerOptions profiler_options(const GraphMicroscopeOptions& options,
                                              const LoadedEngine& engine) {
  return {.num_replays = options.num_replays,
          .context_len = options.context_len,
          .num_reqs = options.num_reqs,
          .num_positions = engine.options->max_model_len};
}

}  // namespace

void require_profilable(const EngineArgs& args) {
  if (args.ranks_per_engine() > 1 || args.is_in_lockstep()) {
    refuse_profile("several ranks or engines",
                   "each replay needs the others; leave the option out");
  }
}

void require_profilable(const LoadedEngine& engine) {
  require_profilable(engine.args);
  if (engine.options->config.encoder) {
    refuse_profile("a model with an encoder", "a step needs the text of its encoder");
  }
}

Json describe_for_profile(const LoadedEngine& engine) {
  const StartupReport& report = engine.report;
  const std::filesystem::path& model = engine.args.model;
  return {{"version", engine.args.program_version},
          {"device", report.device},
          {"cpu_isa", report.cpu_isa},
          {"model", (model.has_filename() ? model : model.parent_path()).filename().string()},
          {"dtype", report.dtype},
          {"kv_cache_dtype", report.kv_cache_dtype},
          {"quantization", engine.args.quantization},
          {"attention", report.attention == nullptr ? "" : std::string(report.attention->name)},
          {"cudagraph_mode", to_string(engine.options->graphs.mode)},
          {"compilation_level", config::to_string(engine.options->graphs.compilation_mode)},
          {"max_model_len", report.max_model_len}};
}

GraphMicroscope::GraphMicroscope(const EngineArgs& args,
                                 const GraphMicroscopeOptions& options,
                                 const StartupObserver& observer)
    : options_(options), engine_(load_engine(with_inventory(args), observer)) {
  require_profilable(*engine_);
  const cudagraph::CudagraphDispatcher& dispatcher = engine_->runner->dispatcher();
  for (const cudagraph::CaptureGroup& group : dispatcher.capture_plan()) {
    for (const cudagraph::BatchDescriptor& descriptor : group.descriptors) {
      if (dispatcher.is_captured(group.mode, descriptor)) keys_.push_back({group.mode, descriptor});
    }
  }
  if (keys_.empty()) {
    throw InvalidArgument(
        fmt::format("this engine has no graphs: cudagraph_mode is {}{}",
                    to_string(engine_->options->graphs.mode),
                    engine_->options->graph_inputs.compilation.cudagraph_lazy_capture
                        ? ", and cudagraph_lazy_capture captures them when a batch needs them"
                        : ""));
  }
}

GraphMicroscope::~GraphMicroscope() = default;

runner::GraphProfile GraphMicroscope::profile(const cudagraph::PlannedKey& key) {
  if (!memory_gb_s_) memory_gb_s_ = runner::measure_memory_bandwidth(engine_->runner->execution());
  runner::GraphProfiler profiler(*engine_->runner, profiler_options(options_, *engine_));
  runner::GraphProfile profile = profiler.profile(key.mode, key.descriptor);
  profile.engine = describe_for_profile(*engine_);
  profile.memory_gb_s = *memory_gb_s_;
  return profile;
}

runner::GraphProfile GraphMicroscope::measure_whole(const cudagraph::PlannedKey& key) {
  runner::GraphProfiler profiler(*engine_->runner, profiler_options(options_, *engine_));
  runner::GraphProfile profile = profiler.measure_whole(key.mode, key.descriptor);
  profile.engine = describe_for_profile(*engine_);
  return profile;
}

}  // namespace reprise::api
