#pragma once

#include <memory>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"

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
/// Loads the engine of a rank other than rank 0, and runs the steps that rank 0 announces, until
/// rank 0's engine is destroyed. \throws as load_engine(), parallel::RankError,
/// device::DeviceError
void follow_rank_0(const EngineArgs& args);

}  // namespace reprise::api
