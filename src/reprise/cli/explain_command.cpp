#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "reprise/api/compiled_model.h"
#include "reprise/api/engine_loader.h"
#include "reprise/api/extension_options.h"
#include "reprise/attention/attention_backend.h"
#include "reprise/base/error.h"
#include "reprise/cli/attention_options.h"
#include "reprise/cli/cache_options.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/engine_options.h"
#include "reprise/config/atom_decision_tree.h"
#include "reprise/config/explain.h"
#include "reprise/runner/model_attention.h"
#include "reprise/runner/model_drafter.h"
#include "reprise/speculative/speculative_config.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/model_directory.h"

namespace reprise::cli {
namespace {

cudagraph::AttentionCGSupport parse_support(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  using cudagraph::AttentionCGSupport;
  for (AttentionCGSupport support : {AttentionCGSupport::NEVER,
                                     AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE,
                                     AttentionCGSupport::UNIFORM_BATCH,
                                     AttentionCGSupport::ALWAYS}) {
    if (upper == to_string(support)) return support;
  }
  // The names in the pull request that introduced the levels. A backend with separate routines for
  // decode batches supports every batch too: the key of a graph says which routine it holds.
  if (upper == "ALWAYS_UNIFIED" || upper == "ALWAYS_SEPARATE") return AttentionCGSupport::ALWAYS;
  if (upper == "PURE_DECODE_ONLY") return AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE;
  throw InvalidArgument(
      fmt::format("--attention-support: '{}' is not one of ALWAYS, UNIFORM_BATCH, "
                  "UNIFORM_SINGLE_TOKEN_DECODE, NEVER, or an older name: ALWAYS_UNIFIED, "
                  "ALWAYS_SEPARATE, PURE_DECODE_ONLY",
                  text));
}

struct ExplainArguments {
  config::ResolutionInputs inputs;
  std::string attention_backend = "auto";
  int32_t flash_attn_version = 0;
  std::string kv_cache_dtype = "auto";
  std::optional<cudagraph::AttentionCGSupport> attention_support;
  api::EngineArgs engine;  // nothing but its extensions
  Json compilation_config = Json::object();
  Json speculative_config = Json::object();
  std::vector<std::string> batches;
  std::filesystem::path model;
  bool compile = false;
  bool enable_lora = false;
  int32_t max_loras = 1;
  bool json = false;
  bool as_atom = false;
};

/// Adds the settings of another engine; what the user gave keeps its value.
void apply_preset(std::string_view name, ExplainArguments& arguments) {
  if (name != "atom")
    throw InvalidArgument(fmt::format("--preset: there is no preset '{}'; there is atom", name));
  arguments.as_atom = true;
}

void add_what_if(OptionTable& table, ExplainArguments& arguments) {
  constexpr const char* kWhatIf = "What if";
  table.add({.name = "attention-support",
             .group = kWhatIf,
             .value_name = "LEVEL",
             .help = "What the weakest attention backend can capture.",
             .default_text = "that of --attention-backend",
             .apply = [&](std::string_view value) {
               arguments.attention_support = parse_support(value);
             }});
  table.add_integer(
      "max-num-seqs", kWhatIf, "Most requests in one step.", arguments.inputs.max_num_seqs);
  table.add_integer("max-num-batched-tokens",
                    kWhatIf,
                    "Most tokens in one step.",
                    arguments.inputs.max_num_batched_tokens);
  table.add_integer("num-speculative-tokens",
                    kWhatIf,
                    "Draft tokens verified per step.",
                    arguments.inputs.num_speculative_tokens);
  table.add_object("speculative-config",
                   kWhatIf,
                   "The same with the rest of its configuration, as for serve.",
                   arguments.speculative_config);
  table.add_integer("tensor-parallel-size",
                    kWhatIf,
                    "Ranks one layer is split over.",
                    arguments.inputs.tensor_parallel_size);
  table.add_switch("enable-lora", kWhatIf, "Adapters are served.", arguments.enable_lora);
  table.add_integer("max-loras", kWhatIf, "Adapters in one step.", arguments.max_loras);
  table.add_switch("specialize-active-lora",
                   kWhatIf,
                   "Graphs for 1, 2, 4, ... adapters in a step.",
                   arguments.inputs.lora.specialize_active_lora);
  table.add_switch("pooling", kWhatIf, "An embedding model.", arguments.inputs.pooling);
  table.add_switch(
      "cascade", kWhatIf, "Shared-prefix attention is enabled.", arguments.inputs.cascade_enabled);
  table.add_switch(
      "compile",
      kWhatIf,
      "Also compile MODEL, with made-up weights: which level runs, or why its trace is refused.",
      arguments.compile);
  table.add_switch(
      "enforce-eager", kWhatIf, "No graphs and no compiler.", arguments.inputs.enforce_eager);
}

OptionTable make_table(ExplainArguments& arguments) {
  OptionTable table(
      "reprise explain [MODEL] [options]",
      "Prints the resolved cudagraph mode with every reason, the capture sizes, and for "
      "each --batch the decision. Needs no weights and no device. Of a MODEL folder it reads "
      "config.json, which says what its layers are; --compile also needs what compiling needs.");
  table.add({.name = "batch",
             .group = "Batches",
             .value_name = "SPEC",
             .help = "decode:33, mixed:100, uniform:4x8 (4 requests of 8 tokens), prefill:512; "
                     "may be repeated.",
             .apply = [&](std::string_view value) { arguments.batches.emplace_back(value); }});
  add_what_if(table, arguments);
  add_attention_options(table, arguments.attention_backend, arguments.flash_attn_version);
  add_kv_cache_dtype(table, "What if", arguments.kv_cache_dtype);
  add_compilation_options(table,
                          arguments.compilation_config,
                          arguments.inputs.optimization_level,
                          arguments.engine.extension_files);
  table.add({.name = "preset",
             .group = "What if",
             .value_name = "NAME",
             .help = "Decide as another engine does, and show its decision tree: atom.",
             .apply = [&](std::string_view value) { apply_preset(value, arguments); },
             .choices = {"atom"}});
  table.add_switch("json", "Output", "One JSON object.", arguments.json);
  return table;
}

// Reads config.json if `model` is a folder. A name on the hub has no file here: nullopt.
std::optional<weights::ModelConfig> find_model_config(const std::filesystem::path& model) {
  std::error_code error;
  if (model.empty() || !std::filesystem::is_regular_file(model / "config.json", error)) return {};
  return weights::load_model_config(weights::ModelDirectory(model)).config;
}

// The backends of the model's layers; without a model, the one that --attention-backend names.
const attention::BackendInfo& set_attention(ExplainArguments& arguments) {
  const std::optional<weights::ModelConfig> model = find_model_config(arguments.model);
  std::optional<attention::AttentionKind> kind;
  if (model) {
    kind = runner::attention_kind_of(*model);
    arguments.inputs.encoder_decoder = model->encoder.has_value();
  }
  const attention::BackendInfo& backend = attention::find_attention_backend(
      arguments.attention_backend, arguments.flash_attn_version, kind);
  auto& groups = arguments.inputs.attention;
  groups = {{std::string(backend.name), backend.support}};
  if (model) groups = runner::attention_groups(runner::layer_backends(*model, &backend));
  if (arguments.attention_support) {
    groups = {{std::string(backend.name), *arguments.attention_support}};
  }
  return backend;
}

// The draft model gets graphs like a model with one draft: its first step has two tokens per
// request.
config::DraftModelSizes draft_model_sizes(config::ResolutionInputs inputs) {
  inputs.num_speculative_tokens = runner::ModelDrafter::kFirstQueryLen - 1;
  static_cast<cudagraph::CaptureSizeRequest&>(inputs.compilation) = {};
  inputs.compilation.compile_sizes.reset();
  inputs.max_num_batched_tokens = std::max(
      inputs.max_num_batched_tokens, runner::ModelDrafter::kFirstQueryLen * inputs.max_num_seqs);
  const config::Explanation sizes = config::explain(inputs, {});
  return {.mixed = sizes.mixed_sizes, .first = sizes.decode_sizes, .others = sizes.draftless_sizes};
}

config::Explanation explain(ExplainArguments& arguments) {
  const attention::BackendInfo& backend = set_attention(arguments);
  if (arguments.enable_lora) arguments.inputs.lora.max_loras = arguments.max_loras;
  try {
    bool has_draft_model = false;
    bool has_draft_head = false;
    if (!arguments.speculative_config.empty()) {
      const auto speculation = speculative::parse_speculative_config(arguments.speculative_config);
      arguments.inputs.num_speculative_tokens = speculation.num_speculative_tokens;
      has_draft_model = speculation.method == speculative::SpeculativeMethod::draft_model;
      has_draft_head = is_draft_head(speculation.method);
    }
    attention::require_cache_dtype(backend, kv_cache::find_cache_dtype(arguments.kv_cache_dtype));
    api::load_extension_files(arguments.engine);
    arguments.inputs.extensions = api::extension_names(arguments.engine);
    config::ParsedCompilationConfig parsed =
        config::parse_compilation_config(arguments.compilation_config, arguments.inputs.extensions);
    arguments.inputs.compilation = std::move(parsed.config);
    if (arguments.as_atom)
      arguments.inputs.compilation.capture_size_rule = cudagraph::CaptureSizeRule::atom;
    config::Explanation explanation = config::explain(arguments.inputs, arguments.batches);
    if (has_draft_model) explanation.draft_model = draft_model_sizes(arguments.inputs);
    // The head's first step has the batch of the main model's step.
    if (has_draft_head) {
      explanation.draft_model = {.mixed = explanation.mixed_sizes,
                                 .first = explanation.decode_sizes,
                                 .others = explanation.draftless_sizes};
    }
    if (explanation.resolved) {
      auto& warnings = explanation.resolved->warnings;
      warnings.insert(warnings.begin(), parsed.warnings.begin(), parsed.warnings.end());
    }
    return explanation;
  } catch (const InvalidArgument& error) {
    config::Explanation explanation;
    explanation.error = error.what();
    return explanation;
  }
}

// Compiles a model at this level. Needs the model's config.json and memory for its weights.
api::StartupReport compile(const ExplainArguments& arguments) {
  if (arguments.model.empty()) throw InvalidArgument("--compile: needs a MODEL");
  return api::compile_only({.model = arguments.model,
                            .load_format = api::LoadFormat::dummy,
                            .max_num_seqs = arguments.inputs.max_num_seqs,
                            .max_num_batched_tokens = arguments.inputs.max_num_batched_tokens,
                            .kv_cache_dtype = arguments.kv_cache_dtype,
                            .attention_backend = arguments.attention_backend,
                            .flash_attn_version = arguments.flash_attn_version,
                            .enforce_eager = arguments.inputs.enforce_eager,
                            .optimization_level = arguments.inputs.optimization_level,
                            .compilation_config = arguments.compilation_config,
                            .extensions = arguments.engine.extensions})
      .report;
}

}  // namespace

int run_explain(std::span<const std::string> arguments) {
  ExplainArguments parsed;
  parsed.inputs.max_num_batched_tokens = api::EngineArgs{}.max_num_batched_tokens;
  const OptionTable table = make_table(parsed);
  const std::optional<Configuration> configuration = configure(table, arguments);
  if (!configuration) return 0;
  // A MODEL is accepted so that the arguments of a serve command can be pasted.
  const std::span<const std::string> positional = configuration->positional();
  if (positional.size() > 1) throw InvalidArgument("explain takes at most one MODEL");
  if (!positional.empty()) parsed.model = positional[0];
  const config::Explanation explanation = explain(parsed);
  std::optional<api::StartupReport> compiled;
  if (parsed.compile && !explanation.error) compiled = compile(parsed);
  if (parsed.json) {
    Json document = to_json(explanation);
    if (compiled) {
      document["compilation"] = compilation_to_json(*compiled);
    }
    if (parsed.as_atom && explanation.resolved)
      document["atom_decision_tree"] = config::atom_decision_tree(*explanation.resolved);
    fmt::print("{}\n", document.dump(2));
  } else if (explanation.error) {
    throw InvalidArgument(*explanation.error);
  } else {
    if (parsed.as_atom) fmt::print("{}\n", config::atom_decision_tree(*explanation.resolved));
    fmt::print("{}", to_text(explanation));
    if (compiled) {
      fmt::print("compiled   {}\n{}",
                 compilation_line(*compiled),
                 compilation_details(compiled->compilation));
    }
  }
  return explanation.error ? 2 : 0;
}

}  // namespace reprise::cli
