#pragma once

#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/model/model_compiler_options.h"

namespace reprise::compile {

/// The key of a compiled model in the compile cache. It contains everything that the program
/// depends on (model shape, types, passes, instruction set, this build's sources). It contains
/// nothing else, so weights, paths, batch limits, threads and the number of cache blocks may change
/// without a new compilation.
[[nodiscard]] CacheKey model_cache_key(const ModelCompilerOptions& options);

/// A hash of this build's sources for models, programs, passes, code generation and kernels.
[[nodiscard]] const char* sources_hash() noexcept;

}  // namespace reprise::compile
