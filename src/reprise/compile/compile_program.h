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

/// Receives one file of a dump: "traced.program.txt", "piece_1/03_fuse_rope_kv_write.txt". The
/// names are relative paths of [A-Za-z0-9._/-]. May be empty.
using DumpSink = std::function<void(std::string_view name, std::string_view content)>;

struct CompileOptions {
  /// The ops at which the program is split. Without any, the program is one piece.
  program::SplittingOps splitting_ops;
  /// true: each capturable piece is captured as a separate graph (level 3). false: one capture
  /// covers the program and is interrupted at each splitting op.
  bool wrap_pieces = true;
  /// true: the passes see the whole program, which is split afterwards (vLLM's
  /// use_inductor_graph_partition). false: the program is split first, and the passes see each
  /// distinct piece.
  bool partition_after_passes = false;
  /// Empty: backend "eager", which runs the program as it was traced.
  Pipeline pipeline{{}};
  /// Generates code for row groups; nullptr: their ops run one by one. Borrowed.
  CompilerInterface* compiler = nullptr;
  /// Loads the generated code. Borrowed.
  const device::CodeLoader* loader = &program::cpu_code_loader();
  /// true: results get places in an arena, as separate graphs per piece require. false: the
  /// executor's pool provides memory.
  bool plan_memory = true;
  AliasRule can_alias = nullptr;
};

struct CompileResult {
  program::CompiledProgram program;
  // The generated code as it is loaded; empty without generated code.
  std::vector<std::byte> object;
  // One per distinct program, or a single one if the passes saw the whole program.
  std::vector<PipelineReport> reports;
  PlannedMemory memory;
};

/// Compiles a traced program: splits it, runs passes, generates code and plans memory. The same
/// program and options give the same bytes. Adds to `counter` and `seconds`. Does not use the
/// weights and caches in the traced program's slots.
/// \throws CompileError (a pass), CodegenError, program::ProgramError, and what the loader throws
[[nodiscard]] CompileResult compile_program(const program::Program& traced,
                                            std::vector<program::ParameterSlot> parameters,
                                            const CompileOptions& options,
                                            CompilationCounter& counter,
                                            CompilationSeconds& seconds,
                                            const DumpSink& dump = {});

}  // namespace reprise::compile
