#pragma once

#include <filesystem>

#include "reprise/compile/model/model_compiler.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {

/// Gives the runner the compiled programs of one forward of its model. If the compiler refuses the
/// model, the runner keeps the model's own code. \pre nothing is captured yet
void compile_runner(compile::ModelCompiler& compiler,
                    runner::ModelRunner& runner,
                    runner::ForwardKind kind);

/// The folder of the compile cache: `root`, else REPRISE_CACHE_ROOT, else the user's cache folder.
[[nodiscard]] std::filesystem::path compile_cache_root(const std::filesystem::path& root);
/// The folder of packed weights: in REPRISE_CACHE_ROOT, else in the user's cache folder.
[[nodiscard]] std::filesystem::path packed_weights_root();
/// Whether the environment disables the compile cache.
[[nodiscard]] bool is_compile_cache_disabled();

}  // namespace reprise::api
