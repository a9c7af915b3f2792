#pragma once

#include "reprise/api/startup_report.h"
#include "reprise/compile/model/model_compiler.h"

namespace reprise::api {

/// The result of compile_only(). No graph is captured and no step runs.
struct CompiledModel {
  StartupReport report;
  /// Empty if the level compiles nothing or the compiler refused the model.
  compile::CompilationStages stages;
};

}  // namespace reprise::api
