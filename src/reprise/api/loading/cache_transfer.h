#pragma once

namespace reprise::api {

struct LoadedEngine;

/// Makes `kv_transfer` of the engine if EngineArgs::kv_transfer asks for it, and adds notes for an
/// operator to the warnings of the report. Called when the runner exists. \throws InvalidArgument
/// for models and options whose prompts cannot be continued elsewhere, and when a producer cannot
/// listen
void open_kv_transfer(LoadedEngine& engine);

}  // namespace reprise::api
