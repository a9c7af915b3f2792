#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/compilation_counter.h"
#include "reprise/compile/pipeline.h"
#include "reprise/compile/plan_memory.h"
#include "reprise/program/compiled_program.h"
#include "reprise/program/cpu_code_loader.h"

namespace reprise::compile {

/// Takes one file of a dump: "traced.program.txt", "piece_1/03_fuse_rope_kv_write.txt". May be
/// empty. Names are relative, of [A-Za-z0-9._/-].
using DumpSink = std::function<void(std::string_view name, std::string_view content)>;

struct CompileOptions {
  /// Ops at which the program is split; none: the program is one piece.
  program::SplittingOps splitting_ops;
  /// True: each capturable piece is captured as its own graph (compilation level 3). False: a
  /// single capture covers the program and pauses at each splitting op.
  bool wrap_pieces = true;
  /// True: passes see the whole program, which is split afterwards (use_inductor_graph_partition).
  /// False: each unique piece is compiled.
  bool partition_after_passes = false;
  /// Empty: backend "eager", which runs the program as it was traced.
  Pipeline pipeline{{}};
  /// Generates code for row groups; nullptr: their ops run one by one. Borrowed.
  CompilerInterface* compiler = nullptr;
  /// Loads the generated code. Borrowed.
  const device::CodeLoader* loader = &program::cpu_code_loader();
  /// True: results have planned places, which graphs per piece need. False: they come from a pool.
  bool plan_memory = true;
  AliasRule can_alias = nullptr;
};

struct CompileResult {
  program::CompiledProgram program;
  std::vector<std::byte> object;        // the code as loaded; empty without generated code
  std::vector<PipelineReport> reports;  // one per unique program, or one in all
  PlannedMemory memory;
};

/// Compiles a traced program: split, passes, code, memory plan. Compiling twice gives the same
/// bytes. Adds to `counter` and `seconds`; the traced program's slots are not touched.
/// \throws CompileError (a pass), CodegenError, program::ProgramError, and what the loader throws
[[nodiscard]] CompileResult compile_program(const program::Program& traced,
                                            std::vector<program::ParameterSlot> parameters,
                                            const CompileOptions& options,
                                            CompilationCounter& counter,
                                            CompilationSeconds& seconds,
                                            const DumpSink& dump = {});

}  // namespace reprise::compile
