#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/compilation_counter.h"
#include "reprise/compile/pipeline_report.h"

namespace reprise::compile {

/// CompilationReport::refused of a model whose CompileSupport keeps it out of compilation.
inline constexpr std::string_view kOptedOut = "the model asks not to be compiled";

/// What the compiler did while an engine started.
struct CompilationReport {
  CompilationCounter counter;
  CompilationSeconds seconds;
  std::string backend;          // "llvm", "nvrtc", "eager", or "" at level 0
  std::string cache_directory;  // cache entry of this engine; empty without a cache
  std::string cache_outcome;    // "hit", or why the cache was not used
  std::string cache_saved;      // "saved", or why not; empty on a hit
  /// Bytes of intermediate results per token: first, what the memory plan takes; second, the
  /// largest sum of results that are needed at the same time. No plan can take less than the second
  /// number.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
  std::vector<PipelineReport> pass_reports;  // one per unique program; empty on a cache hit
  /// Kernel launches of one decode step: of the traced program (0 if nothing was traced), and of
  /// the compiled program (0 if nothing was compiled).
  size_t traced_launches = 0;
  size_t compiled_launches = 0;
  // The reason why the model could not be traced; the model then runs its own code, as at level 0.
  std::string refused;
  /// Level 1: the reason why no program serves all numbers of tokens, so that each number is traced
  /// at its first use. Empty: one program serves all numbers, so no guards are needed.
  std::string guarded;
};

}  // namespace reprise::compile
