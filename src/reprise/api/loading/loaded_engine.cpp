#include "reprise/api/loading/loaded_engine.h"

#include <string>
#include <vector>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/engine_memory.h"
#include "reprise/api/loading/weight_files.h"
#include "reprise/api/options/extension_options.h"
#include "reprise/api/options/hub_cache.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/kv_cache/events/kv_event_publisher.h"
#include "reprise/kv_cache/events/kv_event_recorder.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/replay_log/log_writer.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/speculative/drafter.h"

namespace reprise::api {

LoadedEngine::LoadedEngine() = default;
LoadedEngine::~LoadedEngine() {
  // A core exists only if the engine was loaded: the other ranks now wait for steps.
  if (core == nullptr) return;
  core.reset();
  runner->stop_other_ranks();
}

void LoadedEngine::sleep(SleepLevel level) {
  if (args.ranks != nullptr || args.replicas != nullptr) {
    throw InvalidArgument(
        "an engine of several ranks (--tensor-parallel-size, --data-parallel-size) cannot sleep "
        "yet");
  }
  const scheduler::Scheduler& scheduler = core->scheduler();
  if (scheduler.num_running() + scheduler.num_waiting() > 0) {
    throw InvalidArgument(
        "an engine with unfinished requests cannot sleep; finish or abort them first");
  }
  // A step whose requests have all ended may still be computed, and its work may still run. Both
  // must be over before memory goes.
  core->drop_steps();
  runner->wait();
  if (draft != nullptr) {
    // The cache of the draft model keeps tokens of requests that have ended. Sleeping loses them.
    drafter->forget_all();
    draft->memory->sleep(level);
  }
  try {
    memory->sleep(level);
  } catch (...) {
    if (draft != nullptr) draft->wake_memory(EngineParts::all());
    throw;
  }
  // No request holds a cache block here. Freeing the blocks also drops the cached prefixes.
  if (!core->reset_prefix_cache()) throw Error("blocks of the KV cache are held by no request");
}

void LoadedEngine::wake_up(EngineParts parts) {
  wake_memory(parts);
  if (draft != nullptr) draft->wake_memory(parts);
}

void LoadedEngine::wake_memory(EngineParts parts) {
  memory->wake_up(parts, [this] {
    std::vector<std::string> known_warnings;
    parameters->reload(*open_engine_weights(args, *options, known_warnings));
  });
}

EngineParts LoadedEngine::sleeping() const noexcept { return memory->sleeping(); }

std::unique_ptr<LoadedEngine> begin_engine(const EngineArgs& args) {
  auto engine = std::make_unique<LoadedEngine>();
  engine->args = args;
  const auto& cache = args.download_dir;
  engine->args.model =
      find_model_folder(args.model, cache.empty() ? hub_cache_folder() : cache, args.revision);
  load_extension_files(engine->args);
  return engine;
}

}  // namespace reprise::api
