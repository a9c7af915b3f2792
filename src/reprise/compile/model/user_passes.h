#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/model/model_compiler_options.h"
#include "reprise/compile/pipeline.h"
#include "reprise/program/split.h"

/// The passes and ops of the user of the library, as the options name them.
namespace reprise::compile {

/// The passes under a key of `inductor_passes`, in their order. Whatever a pass throws becomes a
/// CompileError with its name. They borrow the extensions in `options`.
[[nodiscard]] std::vector<Pass> passes_of_user(const ModelCompilerOptions& options,
                                               std::string_view key);

/// The pipeline of a range of batch sizes, between the user's passes before and after it.
[[nodiscard]] Pipeline between_user_passes(const ModelCompilerOptions& options,
                                           const Pipeline& pipeline);

/// Runs the user's passes for the whole program, before the program is split. \throws CompileError
/// if a pass fails, breaks the program, or changes its inputs or slots
void run_before_split(const ModelCompilerOptions& options, program::Program& traced);

/// Names and versions of all passes and ops, for the key of the compile cache. Empty: there are
/// none.
[[nodiscard]] std::string extensions_text(const ModelCompilerOptions& options);

/// A sentence for each entry of the user's `splitting_ops` that no program has, and for passes that
/// do not run.
[[nodiscard]] std::vector<std::string> entries_without_effect(const ModelCompilerOptions& options,
                                                              const program::SplitProgram& program);

}  // namespace reprise::compile
