#pragma once

#include "reprise/api/startup_report.h"
#include "reprise/compile/model/model_compiler.h"

namespace reprise::api {

/// The result of EngineLoader::compile_only: nothing is captured and nothing runs.
struct CompiledModel {
  StartupReport report;
  /// Empty where the level compiles nothing or the model was refused.
  compile::CompilationStages stages;
};

}  // namespace reprise::api
