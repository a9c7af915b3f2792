#pragma once

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/disk_steps.h"
#include "reprise/engine/request_recorder.h"

/// EngineArgs::replay_log: the log with which answers can be repeated.
namespace reprise::api {

/// Opens the file before anything large is loaded. Returns no descriptor without the option, and on
/// ranks that do not schedule. Adds a warning if other users may read the file. \throws
/// InvalidArgument if the file cannot be opened
[[nodiscard]] Descriptor open_replay_log(const EngineArgs& args, ResolvedOptions& options);

/// Begins to write, once the engine is loaded. Does nothing without a file.
void start_replay_log(LoadedEngine& engine, Descriptor file);

/// For the StepLoop of this engine; empty without a log. The result must not outlive the engine.
[[nodiscard]] engine::OnRecord on_record_of(LoadedEngine& engine);

}  // namespace reprise::api
