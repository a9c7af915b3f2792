#pragma once

#include <memory>

#include "reprise/api/options/startup_report.h"
#include "reprise/compile/model/extensions.h"
#include "reprise/compile/model/model_compiler.h"

namespace reprise::api {

/// The result of compile_only(). No graph is captured and no step runs.
struct CompiledModel {
  /// The plug-ins with the user's ops in the stages. The plug-ins outlive the stages.
  std::shared_ptr<const compile::Extensions> extensions;
  StartupReport report;
  /// Empty if the level compiles nothing or the compiler refused the model.
  compile::CompilationStages stages;
};

}  // namespace reprise::api
