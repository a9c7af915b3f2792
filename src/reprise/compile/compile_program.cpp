#include "reprise/compile/compile_program.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "reprise/program/artifact.h"
#include "reprise/program/text.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::SplitProgram;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// One compilation, with one function per stage.
class Compilation {
 public:
  Compilation(const CompileOptions& options,
              CompilationCounter& counter,
              CompilationSeconds& seconds,
              const DumpSink& dump)
      : options_(options), counter_(counter), seconds_(seconds), dump_(dump) {}

  CompileResult run(const Program& traced, std::vector<program::ParameterSlot> parameters) {
    ++counter_.num_graphs_seen;
    dump("traced.program.txt", [&] { return program::print(traced); });
    result_.program.parameters = std::move(parameters);
    result_.program.num_states = traced.states.size();
    result_.program.wrap_pieces = options_.wrap_pieces;
    if (options_.partition_after_passes) {
      Program whole = traced;
      apply_passes(whole, "whole");
      cut(whole);
    } else {
      cut(traced);
      SplitProgram& split = result_.program.split;
      for (size_t i = 0; i < split.programs.size(); ++i) {
        apply_passes(split.programs[i], fmt::format("piece_{}", i));
      }
    }
    count_pieces();
    generate_code();
    plan();
    return std::move(result_);
  }

 private:
  template <typename MakeText>
  void dump(std::string_view name, MakeText&& make_text) const {
    if (dump_) dump_(name, make_text());
  }

  void cut(const Program& whole) {
    const StageTimer timer(seconds_.split);
    result_.program.split = program::split(whole, options_.splitting_ops);
  }

  void apply_passes(Program& program, const std::string& name) {
    const StageTimer timer(seconds_.passes);
    DumpCallback on_pass;
    if (dump_) {
      dump_(name + "/00_before.txt", program::print(program));
      on_pass = [&](const PassDump& pass) {
        dump_(fmt::format("{}/{:02}_{}.txt", name, pass.index + 1, pass.pass), pass.after);
      };
    }
    result_.reports.push_back(options_.pipeline.run(program, on_pass));
    dump(name + "/passes.txt", [&] { return result_.reports.back().to_string(); });
  }

  void count_pieces() {
    const SplitProgram& split = result_.program.split;
    counter_.num_piecewise_graphs_seen += split.pieces.size();
    counter_.num_piecewise_capturable_graphs_seen += split.num_capturable_pieces();
    counter_.num_unique_pieces += split.num_unique_capturable_pieces();
    const size_t compiled =
        options_.partition_after_passes ? 1 : split.num_unique_capturable_pieces();
    counter_.num_backend_compilations += compiled;
    (options_.compiler != nullptr ? counter_.num_inductor_compiles : counter_.num_eager_compiles) +=
        compiled;
  }

  // Equal groups of different programs share one generated function.
  void generate_code() {
    const StageTimer timer(seconds_.codegen);
    const SplitProgram& split = result_.program.split;
    program::GroupSymbols symbols;
    std::map<std::string, std::string> symbol_of;  // by the group's text
    std::vector<RowGroupSource> sources;
    for (const Program& program : split.programs) {
      std::vector<std::string>& names = symbols.emplace_back();
      for (const Program& group : program.groups) {
        ++counter_.num_fused_groups;
        if (options_.compiler == nullptr || options_.compiler->why_not(group)) {
          names.emplace_back();
          continue;
        }
        const auto [found, is_new] = symbol_of.emplace(
            program::canonical_text(group), fmt::format("row_group_{}", symbol_of.size()));
        if (is_new) sources.push_back({.symbol = found->second, .body = &group});
        names.push_back(found->second);
      }
    }
    if (!sources.empty()) {
      result_.object = options_.compiler->compile(sources);
      counter_.num_generated_kernels += sources.size();
      if (dump_) {
        const CodegenListing listing = options_.compiler->list(sources);
        const CodegenFileSuffixes suffixes = options_.compiler->suffixes();
        dump_(fmt::format("kernels{}", suffixes.ir), listing.ir);
        if (!listing.assembly.empty()) {
          dump_(fmt::format("kernels{}", suffixes.assembly), listing.assembly);
        }
        dump_(fmt::format("kernels{}", suffixes.object), as_text(result_.object));
      }
    }
    program::attach_code(result_.program, result_.object, symbols, *options_.loader);
  }

  void plan() {
    if (!options_.plan_memory) return;
    const StageTimer timer(seconds_.plan);
    result_.memory = plan_memory(result_.program.split, options_.can_alias);
    result_.program.plan = result_.memory.plan;
    dump("memory.txt", [&] {
      return fmt::format("planned bytes per token: {}\nneeded at the same time, at most: {}\n",
                         result_.memory.planned_bytes_per_token,
                         result_.memory.live_bytes_per_token);
    });
  }

  const CompileOptions& options_;
  CompilationCounter& counter_;
  CompilationSeconds& seconds_;
  const DumpSink& dump_;
  CompileResult result_;
};

}  // namespace

CompileResult compile_program(const Program& traced,
                              std::vector<program::ParameterSlot> parameters,
                              const CompileOptions& options,
                              CompilationCounter& counter,
                              CompilationSeconds& seconds,
                              const DumpSink& dump) {
  return Compilation(options, counter, seconds, dump).run(traced, std::move(parameters));
}

}  // namespace reprise::compile
