#pragma once

#include <memory>

#include "reprise/api/engine_args.h"
#include "reprise/api/startup_report.h"

/// Starts an engine in stages: options, tokenizer, weights, KV cache, compile, scheduler, graphs.
namespace reprise::api {

struct CompiledModel;
struct LoadedEngine;

/// Loads, compiles, captures and seals.
/// \throws InvalidArgument (bad options, files), OutOfMemory, device::DeviceError
[[nodiscard]] std::unique_ptr<LoadedEngine> load_engine(const EngineArgs& args,
                                                        const StartupObserver& observer = {});
/// Loads and compiles like load_engine(), but neither reads nor writes the compile cache. Needs no
/// tokenizer. \throws as load_engine()
[[nodiscard]] CompiledModel compile_only(const EngineArgs& args);

}  // namespace reprise::api
