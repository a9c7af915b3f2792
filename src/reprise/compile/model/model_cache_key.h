#pragma once

#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/model/model_compiler_options.h"

namespace reprise::compile {

/// The key of a compiled model in the cache: everything that decides the program (model shape,
/// types, passes, instruction set, this build's sources) and nothing else (weights, paths, batch
/// limits, threads, number of cache blocks).
[[nodiscard]] CacheKey model_cache_key(const ModelCompilerOptions& options);

/// Hash of the sources of models, programs, passes, code generation and kernels of this build.
[[nodiscard]] const char* sources_hash() noexcept;

}  // namespace reprise::compile
