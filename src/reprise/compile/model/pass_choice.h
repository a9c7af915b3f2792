#pragma once

#include <string>
#include <vector>

#include "reprise/compile/model/model_compiler_options.h"
#include "reprise/compile/pass_options.h"
#include "reprise/program/split.h"
#include "reprise/program/token_range.h"

/// Which passes run over a model, for which batch sizes, and where the program is split.
namespace reprise::compile {

/// One range for each exact size of compile_sizes, then those between the endpoints: the endpoints
/// [8, 32] make 1..8, 9..32 and 33 upwards. Source: vLLM's compile ranges.
[[nodiscard]] std::vector<program::TokenRange> compile_ranges(const ModelCompilerOptions& options);

/// Level 3 has all passes; levels 1 and 2 have those that need no pattern, as vLLM's stock compile.
/// `generates_code`: a compiler for row groups is there.
[[nodiscard]] PassOptions choose_passes(const ModelCompilerOptions& options,
                                        const program::TokenRange& range,
                                        bool generates_code);
/// The passes of every range as text: part of the cache key.
[[nodiscard]] std::string passes_text(const ModelCompilerOptions& options);

/// Whether passes see the whole program, which is split afterwards.
[[nodiscard]] bool partitions_after_passes(const ModelCompilerOptions& options);
[[nodiscard]] program::SplittingOps splitting_ops(const ModelCompilerOptions& options);
/// Level 1 with backend "eager": the program runs as it was traced, to compare it with the model.
[[nodiscard]] bool stays_as_traced(const ModelCompilerOptions& options);

/// Warnings about fusions that were switched on but have no effect here.
[[nodiscard]] std::vector<std::string> switches_without_effect(const config::PassConfig& asked);

}  // namespace reprise::compile
