#include "reprise/api/loading/compile_runner.h"

#include <optional>
#include <utility>

namespace reprise::api {

void compile_runner(compile::ModelCompiler& compiler,
                    runner::ModelRunner& runner,
                    runner::ForwardKind kind) {
  std::optional<program::RangedPrograms> programs = compiler.compile(
      {.may_be_compiled = runner.compile_support().is_enabled(), .trace = [&runner, kind] {
         program::TracedProgram traced = runner.trace(kind);
         auto slots = runner.parameter_slots(traced);
         return compile::TracedModel{.traced = std::move(traced), .slots = std::move(slots)};
       }});
  if (programs) {
    runner.use_programs(std::move(*programs), kind);
  } else if (compiler.needs_guards()) {
    runner.use_guards(compiler.guarded_splitting_ops(), kind);
  }
}

}  // namespace reprise::api
