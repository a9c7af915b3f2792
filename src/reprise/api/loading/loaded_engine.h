#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "reprise/api/loading/sleep.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"

namespace reprise::engine {
class EngineCore;
}

namespace reprise::kernels {
class RowSampler;
}

namespace reprise::kv_cache {
class KvEventPublisher;
class KvEventRecorder;
class KvTransfer;
}  // namespace reprise::kv_cache

namespace reprise::lora {
class AdapterRegistry;
class AdapterSlots;
}  // namespace reprise::lora

namespace reprise::models {
class CausalLM;
class Parameters;
}  // namespace reprise::models

namespace reprise::replay_log {
class LogWriter;
}

namespace reprise::runner {
class DataParallelSteps;
class ExpertCounts;
class ModelRunner;
}  // namespace reprise::runner

namespace reprise::speculative {
class Drafter;
}

namespace reprise::api {

struct EngineDevice;
class EngineMemory;
class ModelText;
struct ResolvedOptions;

/// The result of a start: a model with its weights and graphs, and an engine core ready for
/// requests. LLM and AsyncEngine serve requests with it; code that runs steps itself uses `core`
/// and `runner` directly. One thread at a time, except for `text` and `report`, which are constant
/// after the start.
struct LoadedEngine {
  LoadedEngine();
  LoadedEngine(const LoadedEngine&) = delete;
  LoadedEngine& operator=(const LoadedEngine&) = delete;
  ~LoadedEngine();

  /// Gives memory back until wake_up(); no step may run until then. Addresses stay the same, so
  /// graphs stay valid; the prefix cache is emptied. A sleeping engine can change to a deeper level
  /// only.
  /// \throws InvalidArgument while a request is unfinished or if the device cannot give memory
  /// back; otherwise as EngineMemory::sleep. After an exception nothing has changed.
  void sleep(SleepLevel level);
  /// Wakes these parts and reads discarded weights again. The engine is awake when no part sleeps.
  /// \throws FileError when weights cannot be read; otherwise as EngineMemory::wake_up. The part
  /// that failed then still sleeps.
  void wake_up(EngineParts parts);
  /// The parts that sleep.
  [[nodiscard]] EngineParts sleeping() const noexcept;
  /// Wakes the memory of this model alone. \throws as wake_up()
  void wake_memory(EngineParts parts);

  EngineArgs args;
  StartupReport report;
  // Each member borrows from the members above it.
  std::unique_ptr<ResolvedOptions> options;
  std::unique_ptr<ModelText> text;       // nullptr in compile_only() and for a draft model
  std::shared_ptr<EngineDevice> device;  // shared with the draft model
  std::unique_ptr<models::Parameters> parameters;
  std::unique_ptr<lora::AdapterSlots> adapter_slots;    // nullptr without EngineArgs::enable_lora
  std::unique_ptr<runner::ExpertCounts> expert_counts;  // nullptr: nothing is counted
  std::unique_ptr<models::CausalLM> model;
  std::unique_ptr<lora::AdapterRegistry> adapters;  // nullptr without EngineArgs::enable_lora
  /// nullptr: the steps of this engine need no other engine.
  std::unique_ptr<runner::DataParallelSteps> data_parallel;
  std::unique_ptr<runner::ModelRunner> runner;
  std::unique_ptr<kernels::RowSampler> row_sampler;  // nullptr: the host samples
  /// The model that makes draft tokens, without text and core; nullptr: there is none.
  std::unique_ptr<LoadedEngine> draft;
  std::unique_ptr<speculative::Drafter> drafter;  // nullptr: there are no draft tokens
  std::unique_ptr<kv_cache::KvEventPublisher> event_publisher;  // nullptr without kv_events
  std::unique_ptr<kv_cache::KvEventRecorder> event_recorder;    // as event_publisher
  std::unique_ptr<kv_cache::KvTransfer> kv_transfer;            // nullptr without kv_transfer
  std::unique_ptr<replay_log::LogWriter> replay_log;            // nullptr without replay_log
  std::unique_ptr<engine::EngineCore> core;
  std::unique_ptr<EngineMemory> memory;
};

/// An engine with its options only: the model is found, and files of extensions are loaded. The
/// stages of a start add the other parts. \throws InvalidArgument, FileError
[[nodiscard]] std::unique_ptr<LoadedEngine> begin_engine(const EngineArgs& args);

}  // namespace reprise::api
