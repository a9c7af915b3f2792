#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/compile/compilation_counter.h"
#include "reprise/compile/pipeline_report.h"

namespace reprise::compile {

/// What the compiler did while an engine started.
struct CompilationReport {
  CompilationCounter counter;
  CompilationSeconds seconds;
  std::string backend;          // "llvm", "nvrtc", "eager", or "" at level 0
  std::string cache_directory;  // cache entry of this engine; empty without a cache
  std::string cache_outcome;    // "hit", or why the cache was not used
  std::string cache_saved;      // "saved", or why not; empty on a hit
  /// Bytes of intermediate results per token: those the memory plan takes, and those that are alive
  /// at the same time at the worst moment.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
  std::vector<PipelineReport> pass_reports;  // one per unique program; empty on a cache hit
  /// Kernels that one decode step launches: of the traced program (0 on a cache hit, which does not
  /// trace), and of the compiled program (0 when nothing was compiled).
  size_t traced_launches = 0;
  size_t compiled_launches = 0;
  std::string refused;  // why the model was not traced and runs its own code, as at level 0
};

}  // namespace reprise::compile
