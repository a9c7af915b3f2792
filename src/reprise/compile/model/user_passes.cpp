#include "reprise/compile/model/user_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "reprise/compile/model/pass_choice.h"
#include "reprise/config/extension_names.h"
#include "reprise/config/splitting_ops.h"
#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/view.h"

namespace reprise::compile {
namespace {

using program::Program;

Pass as_pass(const UserPass& pass) {
  return {.name = pass.name, .apply = [&pass](Program& program) {
            try {
              return pass.apply(program);
            } catch (const std::exception& error) {
              throw CompileError(pass.name, error.what());
            }
          }};
}

std::vector<program::ValueType> slots_of(const Program& program) {
  std::vector<program::ValueType> types;
  for (const program::ProgramInput& input : program.inputs)
    types.push_back(program.type(input.value));
  for (const program::ValueId id : program.parameters) types.push_back(program.type(id));
  for (const program::ValueId id : program.states) types.push_back(program.type(id));
  for (const program::ValueId id : program.outputs) types.push_back(program.type(id));
  return types;
}

std::string op_of(const program::Node& node) {
  return node.op == OpCode::custom ? node.attributes.custom->name : std::string(op_name(node.op));
}

// Whether the entry is in one of the default lists of vLLM or ATOM. These lists name the ops of all
// models.
bool is_of_a_default_list(const std::string& entry) {
  for (const auto list :
       {config::attention_ops(), config::atom_attention_ops(), config::kv_cache_update_ops()}) {
    for (const std::string_view op : list) {
      if (config::is_splitting_op(op, {&entry, 1})) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Pass> passes_of_user(const ModelCompilerOptions& options, std::string_view key) {
  std::vector<Pass> passes;
  for (const std::string& name : config::user_passes(options.asked.inductor_passes, key)) {
    const UserPass* pass = options.extensions ? options.extensions->find_pass(name) : nullptr;
    if (pass == nullptr) throw InvalidArgument(fmt::format("inductor_passes: no pass '{}'", name));
    passes.push_back(as_pass(*pass));
  }
  return passes;
}

Pipeline between_user_passes(const ModelCompilerOptions& options, const Pipeline& pipeline) {
  std::vector<Pass> passes = passes_of_user(options, config::kBeforePasses);
  passes.insert(passes.end(), pipeline.passes().begin(), pipeline.passes().end());
  std::vector<Pass> after = passes_of_user(options, config::kAfterPasses);
  std::move(after.begin(), after.end(), std::back_inserter(passes));
  return Pipeline(std::move(passes));
}

void run_before_split(const ModelCompilerOptions& options, Program& traced) {
  if (stays_as_traced(options)) return;
  const Pipeline passes(passes_of_user(options, config::kBeforeSplit));
  if (passes.passes().empty()) return;
  Program rewritten = traced;
  (void)passes.run(rewritten);
  if (slots_of(rewritten) != slots_of(traced)) {
    throw CompileError(passes.passes().front().name,
                       "the inputs, parameters, states or results of the program changed");
  }
  traced = std::move(rewritten);
}

std::string extensions_text(const ModelCompilerOptions& options) {
  std::string text;
  for (const std::string_view key :
       {config::kBeforeSplit, config::kBeforePasses, config::kAfterPasses}) {
    for (const std::string& name : config::user_passes(options.asked.inductor_passes, key)) {
      const UserPass* pass = options.extensions ? options.extensions->find_pass(name) : nullptr;
      text += fmt::format("{}={}:{};", key, name, pass != nullptr ? pass->uuid : "");
    }
  }
  if (!options.extensions) return text;
  for (const CustomOp* op : options.extensions->ops()) text += op->name + ";";
  return text;
}

std::vector<std::string> entries_without_effect(const ModelCompilerOptions& options,
                                                const program::SplitProgram& program) {
  std::vector<std::string> warnings;
  if (stays_as_traced(options) && !options.asked.inductor_passes.empty()) {
    warnings.emplace_back(
        "inductor_passes has no effect: backend eager at level 1 runs the program as it was "
        "traced");
  }
  if (!compiles_pieces(options) || !options.asked.splitting_ops) return warnings;
  std::set<std::string> ops;
  for (const program::Program& piece : program.programs) {
    for (const program::Node& node : piece.nodes) {
      if (!is_view(node.op)) ops.insert(op_of(node));
    }
  }
  for (const std::string& entry : *options.asked.splitting_ops) {
    if (is_of_a_default_list(entry)) continue;
    const program::SplittingOps named = find_splitting_ops(options, {&entry, 1});
    const bool is_used = std::ranges::any_of(program.pieces, [&](const program::Piece& piece) {
      const auto& nodes = program.programs[piece.program].nodes;
      return piece.is_splitting &&
             std::ranges::any_of(nodes, [&](const auto& node) { return named.contains(node); });
    });
    if (is_used) continue;
    std::string list;
    for (const std::string& op : ops) list += (list.empty() ? "" : ", ") + op;
    warnings.push_back(
        fmt::format("splitting_ops: the compiled program has no op '{}', so nothing is split "
                    "there; it has {}",
                    entry,
                    list));
  }
  return warnings;
}

}  // namespace reprise::compile
