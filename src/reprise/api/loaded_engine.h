#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "reprise/api/engine_args.h"
#include "reprise/api/sleep.h"
#include "reprise/api/startup_report.h"

namespace reprise::engine {
class EngineCore;
class ModelRunner;
}  // namespace reprise::engine

namespace reprise::kernels {
class RowSampler;
}

namespace reprise::models {
class CausalLM;
class Parameters;
}  // namespace reprise::models

namespace reprise::api {

struct EngineDevice;
class EngineMemory;
class ModelText;
struct ResolvedOptions;

/// Everything that one start has loaded: a model with its weights, its graphs, and an engine core
/// ready for requests. LLM and AsyncEngine serve requests over it; code that drives steps itself
/// uses `core` and `runner` directly. One thread at a time, except for `text` and `report`, which
/// are constant after the start.
struct LoadedEngine {
  LoadedEngine();
  LoadedEngine(const LoadedEngine&) = delete;
  LoadedEngine& operator=(const LoadedEngine&) = delete;
  ~LoadedEngine();

  /// Gives memory back until wake_up(); no step may run until then. Addresses stay, so graphs do
  /// too; the prefix cache is emptied. An engine that sleeps can only sleep deeper.
  /// \throws InvalidArgument while a request is unfinished, or where the device cannot give memory
  /// back; otherwise as EngineMemory::sleep. Then nothing has changed
  void sleep(SleepLevel level);
  /// Wakes these parts; discarded weights are read again. The engine is awake when no part sleeps.
  /// \throws FileError when weights cannot be read; otherwise as EngineMemory::wake_up. Then that
  /// part still sleeps
  void wake_up(EngineParts parts);
  /// The parts that sleep.
  [[nodiscard]] EngineParts sleeping() const noexcept;

  EngineArgs args;
  StartupReport report;
  // In order of dependence: each borrows from those above it.
  std::unique_ptr<ResolvedOptions> options;
  std::unique_ptr<ModelText> text;  // nullptr: only compiled, see EngineLoader::compile_only
  std::unique_ptr<EngineDevice> device;
  std::unique_ptr<models::Parameters> parameters;
  std::unique_ptr<models::CausalLM> model;
  std::unique_ptr<engine::ModelRunner> runner;
  std::unique_ptr<kernels::RowSampler> row_sampler;  // nullptr: the host samples
  std::unique_ptr<engine::EngineCore> core;
  std::unique_ptr<EngineMemory> memory;
};

}  // namespace reprise::api
