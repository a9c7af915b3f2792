#pragma once

#include <span>
#include <string>
#include <vector>

#include "reprise/compile/model/model_compiler_options.h"
#include "reprise/compile/pass_options.h"
#include "reprise/program/split.h"
#include "reprise/program/token_range.h"

/// Which passes run over a model, for which batch sizes, and where the program is split.
namespace reprise::compile {

/// The token ranges for which programs are compiled: one range for each size in compile_sizes, then
/// the ranges between the endpoints. Endpoints [8, 32] give the ranges 1..8, 9..32 and 33 upwards.
/// Source: vLLM's compile ranges.
[[nodiscard]] std::vector<program::TokenRange> compile_ranges(const ModelCompilerOptions& options);

/// Level 3 uses all passes. Levels 1 and 2 use only those passes that match no pattern of ops (such
/// as dead code elimination), like vLLM's stock compile. `generates_code` is true if a code
/// generator for row groups is available.
[[nodiscard]] PassOptions choose_passes(const ModelCompilerOptions& options,
                                        const program::TokenRange& range,
                                        bool generates_code);
/// The passes of every range as text, for the cache key.
[[nodiscard]] std::string passes_text(const ModelCompilerOptions& options);

/// true: the passes see the whole program, which is split afterwards. false: the program is split
/// first.
[[nodiscard]] bool partitions_after_passes(const ModelCompilerOptions& options);
[[nodiscard]] program::SplittingOps splitting_ops(const ModelCompilerOptions& options);
/// Returns the ops of these names: ops of the engine and of the user. \throws InvalidArgument as
/// program::parse_splitting_ops()
[[nodiscard]] program::SplittingOps find_splitting_ops(const ModelCompilerOptions& options,
                                                       std::span<const std::string> names);
/// True at level 1 unless a backend that generates code is named: no pass runs, so that a traced
/// program can be compared with the model.
[[nodiscard]] bool stays_as_traced(const ModelCompilerOptions& options);

/// Warns about fusions that the user switched on but that have no effect in this engine.
[[nodiscard]] std::vector<std::string> switches_without_effect(const config::PassConfig& asked);

}  // namespace reprise::compile
