#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "reprise/api/loading/compiled_model.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/memory_bill.h"
#include "reprise/api/options/engine_plan.h"
#include "reprise/api/options/extension_options.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/kv_events_config.h"
#include "reprise/cli/kv_transfer_config.h"
#include "reprise/cli/memory_bill_text.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/cli/vllm_flags.h"
#include "reprise/config/atom_decision_tree.h"
#include "reprise/config/explain.h"
#include "reprise/runner/model_drafter.h"
#include "reprise/speculative/speculative_config.h"

namespace reprise::cli {
namespace {

/// A value of --attention-support and the support that it stands for.
struct AttentionLevel {
  cudagraph::AttentionCGSupport support = cudagraph::AttentionCGSupport::NEVER;
  cudagraph::FullGraphSets full_graph_sets = cudagraph::FullGraphSets::one;
};

AttentionLevel parse_support(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  using cudagraph::AttentionCGSupport;
  for (AttentionCGSupport support : {AttentionCGSupport::NEVER,
                                     AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE,
                                     AttentionCGSupport::UNIFORM_BATCH,
                                     AttentionCGSupport::ALWAYS}) {
    if (upper == to_string(support)) return {.support = support};
  }
  // The names in the pull request that introduced the levels.
  if (upper == "ALWAYS_UNIFIED") return {.support = AttentionCGSupport::ALWAYS};
  if (upper == "ALWAYS_SEPARATE") {
    return {.support = AttentionCGSupport::ALWAYS,
            .full_graph_sets = cudagraph::FullGraphSets::two};
  }
  if (upper == "PURE_DECODE_ONLY") {
    return {.support = AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE};
  }
  throw InvalidArgument(
      fmt::format("--attention-support: '{}' is not one of ALWAYS, UNIFORM_BATCH, "
                  "UNIFORM_SINGLE_TOKEN_DECODE, NEVER, or an older name: ALWAYS_UNIFIED, "
                  "ALWAYS_SEPARATE, PURE_DECODE_ONLY",
                  text));
}

constexpr const char* kWhatIf = "What if";
constexpr const char* kPasted = "Options of serve and generate that change no decision";

struct ExplainArguments {
  api::EngineArgs engine;
  std::vector<std::string> batches;
  std::optional<AttentionLevel> attention_support;
  int32_t num_speculative_tokens = 0;
  bool pooling = false;
  bool cascade = false;
  bool compile = false;
  bool memory = false;
  bool json = false;
};

void add_what_if(OptionTable& table, ExplainArguments& arguments) {
  table.add({.name = "attention-support",
             .group = kWhatIf,
             .value_name = "LEVEL",
             .help = "What the weakest attention backend can capture.",
             .default_text = "that of --attention-backend",
             .apply = [&](std::string_view value) {
               arguments.attention_support = parse_support(value);
             }});
  table.add_integer("num-speculative-tokens",
                    kWhatIf,
                    "Draft tokens verified per step, without a --speculative-config.",
                    arguments.num_speculative_tokens);
  table.add_switch("pooling", kWhatIf, "An embedding model.", arguments.pooling);
  table.add_switch("cascade", kWhatIf, "Shared-prefix attention is enabled.", arguments.cascade);
  table.add_switch(
      "compile",
      kWhatIf,
      "Also compile MODEL, with made-up weights: which level runs, or why its trace is refused.",
      arguments.compile);
}

/// Adds the options that serve or generate has and this table lacks, so that users can paste their
/// commands. vLLM's flags without a meaning here give their message; the values of the other
/// options are not read.
void add_pasted_options(OptionTable& table) {
  for (const OptionTable& command : {serve_options(), generate_options()}) {
    for (Option option : command.options()) {
      if (table.find(option.name) != nullptr) continue;
      option.is_listed = false;
      if (option.group != kVllmFlagsGroup) {
        option.group = kPasted;
        option.apply = [](std::string_view) {};
        if (option.apply_dotted) option.apply_dotted = [](std::string_view, std::string_view) {};
        option.merged = nullptr;
      }
      table.add(std::move(option));
    }
  }
}

OptionTable make_table(ExplainArguments& arguments) {
  OptionTable table(
      "reprise explain [MODEL] [options]",
      "Prints the resolved cudagraph mode with every reason, the capture sizes, and for each "
      "--batch the decision. Takes the arguments of a serve or generate command as they are. Needs "
      "no weights and no device. For a MODEL it reads the configuration, which determines the "
      "layers; --compile also needs what compiling needs.");
  table.add({.name = "batch",
             .group = "Batches",
             .value_name = "SPEC",
             .help = "decode:33, mixed:100, uniform:4x8 (4 requests of 8 tokens), prefill:512; "
                     "may be repeated.",
             .apply = [&](std::string_view value) { arguments.batches.emplace_back(value); }});
  add_what_if(table, arguments);
  table.add_switch(
      "memory",
      "Output",
      "Also list what needs the device's memory: what is known, and what the start measures.",
      arguments.memory);
  table.add_switch("json", "Output", "One JSON object.", arguments.json);
  add_engine_options(table, arguments.engine);
  add_kv_events_config(table, arguments.engine.kv_events);
  add_kv_transfer_config(table, arguments.engine.kv_transfer);
  add_pasted_options(table);
  return table;
}

// A draft model gets the graphs of a model with one draft, because its first step has two tokens
// per request.
config::DraftModelSizes draft_model_sizes(config::ResolutionInputs inputs) {
  inputs.num_speculative_tokens = runner::ModelDrafter::kFirstQueryLen - 1;
  static_cast<cudagraph::CaptureSizeRequest&>(inputs.compilation) = {};
  inputs.compilation.compile_sizes.reset();
  inputs.max_num_batched_tokens = std::max(
      inputs.max_num_batched_tokens, runner::ModelDrafter::kFirstQueryLen * inputs.max_num_seqs);
  const config::Explanation sizes = config::explain(inputs, {});
  return {.mixed = sizes.mixed_sizes, .first = sizes.decode_sizes, .others = sizes.draftless_sizes};
}

config::DraftModelSizes sizes_of(const config::Explanation& explanation) {
  return {.mixed = explanation.mixed_sizes,
          .first = explanation.decode_sizes,
          .others = explanation.draftless_sizes};
}

/// The sizes of the draft model's graphs, from --speculative-config alone: no file is read.
std::optional<config::DraftModelSizes> draft_sizes_without_model(
    const api::EngineArgs& args,
    const config::ResolutionInputs& inputs,
    const config::Explanation& explanation) {
  if (args.speculative_config.empty()) return std::nullopt;
  const auto method = speculative::parse_speculative_config(args.speculative_config).method;
  if (method == speculative::SpeculativeMethod::draft_model) return draft_model_sizes(inputs);
  // The first step of a draft head has the batch of the main model's step.
  if (is_draft_head(method)) return sizes_of(explanation);
  return std::nullopt;
}

/// Changes the inputs from which a start of this model, or of any model, would make its decisions.
void apply_what_if(const ExplainArguments& arguments, config::ResolutionInputs& inputs) {
  if (arguments.pooling) inputs.pooling = true;
  if (arguments.cascade) inputs.cascade_enabled = true;
  if (arguments.num_speculative_tokens != 0) {
    inputs.num_speculative_tokens = arguments.num_speculative_tokens;
  }
  if (arguments.attention_support) {
    const attention::BackendInfo& backend = attention::find_attention_backend(
        arguments.engine.attention_backend, arguments.engine.flash_attn_version);
    inputs.attention = {{.backend = std::string(backend.name),
                         .support = arguments.attention_support->support,
                         .full_graph_sets = arguments.attention_support->full_graph_sets}};
  }
}

config::Explanation explain_any_model(ExplainArguments& arguments) {
  std::vector<std::string> warnings;
  api::load_extension_files(arguments.engine);
  config::ResolutionInputs inputs = api::graph_inputs_without_model(arguments.engine, warnings);
  apply_what_if(arguments, inputs);
  config::Explanation explanation = config::explain(inputs, arguments.batches);
  if (!explanation.resolved) return explanation;
  api::check_rank_options(arguments.engine, *explanation.resolved);
  explanation.draft_model = draft_sizes_without_model(arguments.engine, inputs, explanation);
  std::vector<std::string>& all = explanation.resolved->warnings;
  all.insert(all.begin(), warnings.begin(), warnings.end());
  return explanation;
}

config::Explanation explain_model(const ExplainArguments& arguments) {
  api::EnginePlan plan = api::plan_engine(arguments.engine);
  apply_what_if(arguments, plan.main.inputs);
  config::Explanation explanation = config::explain(plan.main.inputs, arguments.batches);
  if (!explanation.resolved) return explanation;
  explanation.attention_kernels = plan.attention_kernels;
  if (plan.draft) explanation.draft_model = sizes_of(config::explain(plan.draft->inputs, {}));
  // The resolution may give other warnings now. The warnings of other decisions of the start stay.
  std::erase_if(plan.warnings, [&](const std::string& warning) {
    return std::ranges::count(plan.main.resolved.warnings, warning) > 0;
  });
  std::vector<std::string>& all = explanation.resolved->warnings;
  all.insert(all.begin(), plan.warnings.begin(), plan.warnings.end());
  return explanation;
}

config::Explanation explain(ExplainArguments& arguments) {
  try {
    return arguments.engine.model.empty() ? explain_any_model(arguments) : explain_model(arguments);
  } catch (const InvalidArgument& error) {
    config::Explanation explanation;
    explanation.error = error.what();
    return explanation;
  }
}

// Compiles a model at this level. A folder needs only its config.json, and memory for weights.
api::StartupReport compile(const ExplainArguments& arguments) {
  if (arguments.engine.model.empty()) throw InvalidArgument("--compile: needs a MODEL");
  api::EngineArgs args = arguments.engine;
  if (!std::filesystem::is_regular_file(args.model)) args.load_format = api::LoadFormat::dummy;
  return api::compile_only(args).report;
}

std::optional<api::MemoryBill> plan_memory(const ExplainArguments& arguments) {
  if (!arguments.memory) return std::nullopt;
  if (arguments.engine.model.empty()) throw InvalidArgument("--memory: needs a MODEL");
  return api::plan_memory(arguments.engine);
}

/// Whether the answer begins with ATOM's decision tree.
bool shows_atom_tree(const Configuration& configuration) {
  return std::ranges::any_of(configuration.assignments(), [](const Assignment& assignment) {
    return assignment.option->name == "preset" && assignment.value == "atom";
  });
}

/// Says which of the given options change no decision.
void print_pasted(const Configuration& configuration) {
  std::vector<std::string> names;
  for (const Assignment& assignment : configuration.assignments()) {
    const std::string name = "--" + assignment.option->name;
    if (assignment.option->group != kPasted || std::ranges::count(names, name) > 0) continue;
    if (assignment.source == Source::command_line) names.push_back(name);
  }
  if (names.empty()) return;
  print_error("not needed for a decision: {}\n", fmt::join(names, ", "));
}

}  // namespace

int run_explain(std::span<const std::string> arguments) {
  ExplainArguments parsed;
  const OptionTable table = make_table(parsed);
  const std::optional<Configuration> configuration = configure(table, arguments);
  if (!configuration) return 0;
  if (configuration->positional().size() > 1) {
    throw InvalidArgument("explain takes at most one MODEL");
  }
  print_pasted(*configuration);
  const bool as_atom = shows_atom_tree(*configuration);
  const config::Explanation explanation = explain(parsed);
  std::optional<api::StartupReport> compiled;
  if (parsed.compile && !explanation.error) compiled = compile(parsed);
  std::optional<api::MemoryBill> bill;
  if (!explanation.error) bill = plan_memory(parsed);
  if (parsed.json) {
    Json document = to_json(explanation);
    if (compiled) {
      document["compilation"] = compilation_to_json(*compiled);
    }
    if (bill) document["memory"] = to_json(*bill);
    if (as_atom && explanation.resolved)
      document["atom_decision_tree"] = config::atom_decision_tree(*explanation.resolved);
    fmt::print("{}\n", document.dump(2));
  } else if (explanation.error) {
    throw InvalidArgument(*explanation.error);
  } else {
    if (as_atom) fmt::print("{}\n", config::atom_decision_tree(*explanation.resolved));
    fmt::print("{}", to_text(explanation));
    if (bill) fmt::print("{}\n", fmt::join(memory_bill_lines(*bill), "\n"));
    if (compiled) {
      fmt::print("compiled   {}\n{}",
                 compilation_line(*compiled),
                 compilation_details(compiled->compilation));
    }
  }
  return explanation.error ? 2 : 0;
}

}  // namespace reprise::cli
