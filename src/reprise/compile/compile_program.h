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
  /// Ops at which the program is cut; none: one piece.
  program::SplittingOps splitting_ops;
  /// Each capturable piece becomes a graph of its own (level 3); else a capture breaks at the
  /// splitting ones.
  bool wrap_pieces = true;
  /// Passes see the whole program, which is cut afterwards (use_inductor_graph_partition); else
  /// each unique piece is compiled.
  bool partition_after_passes = false;
  /// Nothing: backend "eager", the program as it was traced.
  Pipeline pipeline{{}};
  /// For row groups; null: they run op by op. Borrowed.
  CompilerInterface* compiler = nullptr;
  /// Takes what the compiler makes to where it runs. Borrowed.
  const device::CodeLoader* loader = &program::cpu_code_loader();
  /// Whether results have planned places, or come from a pool. Graphs per piece need a plan.
  bool plan_memory = true;
  AliasRule can_alias = nullptr;
};

struct CompileResult {
  program::CompiledProgram program;
  std::vector<std::byte> object;  // what its code was loaded from; empty without generated code
  std::vector<PipelineReport> reports;  // by unique program, or of the whole
  PlannedMemory memory;
};

/// From a traced program to one that runs: split, passes, code, plan. Compiling twice gives the
/// same bytes. Adds to `counter` and `seconds`; the traced program's slots are not touched. \throws
/// CompileError (a pass), CodegenError, program::ProgramError, what the loader throws
[[nodiscard]] CompileResult compile_program(const program::Program& traced,
                                            std::vector<program::ParameterSlot> parameters,
                                            const CompileOptions& options,
                                            CompilationCounter& counter,
                                            CompilationSeconds& seconds,
                                            const DumpSink& dump = {});

}  // namespace reprise::compile
