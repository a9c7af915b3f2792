#pragma once

#include <span>

#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/model/model_compiler_options.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/program.h"

namespace reprise::compile {

/// The key of a compiled model in the compile cache. It has a digest of the traced program and of
/// the names of its weights, and everything that turns that program into the cached one (passes,
/// code generator, instruction set, this build's sources). The program contains every number of the
/// model that matters, so weights, paths, batch limits, threads and the number of cache blocks may
/// change without a new compilation.
[[nodiscard]] CacheKey model_cache_key(const ModelCompilerOptions& options,
                                       const program::Program& traced,
                                       std::span<const program::ParameterSlot> parameters);

/// A hash of this build's sources for programs, passes, code generation and row groups.
[[nodiscard]] const char* sources_hash() noexcept;

}  // namespace reprise::compile
