#pragma once

#include "reprise/compile/model/model_compiler.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {

/// Gives the runner the compiled programs of one forward of its model. If the compiler refuses the
/// model, the runner keeps the model's own code. \pre nothing is captured yet
void compile_runner(compile::ModelCompiler& compiler,
                    runner::ModelRunner& runner,
                    runner::ForwardKind kind);

}  // namespace reprise::api
