#include "reprise/cli/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/base/python_literal.h"
#include "reprise/cli/attention_options.h"
#include "reprise/cli/cache_options.h"
#include "reprise/cli/cpu_options.h"
#include "reprise/cli/graph_trust_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/lora_options.h"
#include "reprise/cli/older_options.h"
#include "reprise/cli/parallel_options.h"
#include "reprise/config/compilation_overrides.h"
#include "reprise/cudagraph/verify/verify_graphs.h"

namespace reprise::cli {
namespace {

constexpr const char* kModel = "Model";
constexpr const char* kScheduler = "Scheduler";
constexpr const char* kGraphs = "Compilation and graphs";
constexpr const char* kDevice = "Device";
constexpr int32_t kMaxNumSeqsOfAtom = 512;  // ATOM's default, up to which it captures graphs

config::CompilationMode parse_level(std::string_view text) {
  try {
    return config::parse_compilation_mode(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--level: {}", error.what()));
  }
}

/// Appends the sizes of "8", "1,2,4" or "[1, 2, 4]".
void append_sizes(Json& sizes, const std::string& flag, std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  while (true) {
    const size_t comma = text.find(',');
    std::string_view size = text.substr(0, comma);
    size.remove_prefix(std::min(size.find_first_not_of(' '), size.size()));
    sizes.push_back(parse_human_integer(flag, size));
    if (comma == std::string_view::npos) return;
    text.remove_prefix(comma + 1);
  }
}

// The first value starts a new list, so that sizes on the command line replace those of the file.
void add_sizes(OptionTable& table,
               Json& compilation_config,
               const std::string& flag,
               std::string help) {
  std::string key = flag;
  std::replace(key.begin(), key.end(), '-', '_');
  table.add({.name = flag,
             .group = kGraphs,
             .value_name = "N",
             .help = std::move(help),
             .apply =
                 [&compilation_config, flag = "--" + flag, key, has_begun = false](
                     std::string_view value) mutable {
                   Json& sizes = compilation_config[key];
                   if (!std::exchange(has_begun, true)) sizes = Json::array();
                   append_sizes(sizes, flag, value);
                 },
             .takes_several = true});
}

void add_compilation_config(OptionTable& table, Json& compilation_config) {
  table.add({.name = "compilation-config",
             .short_name = "-cc",
             .group = kGraphs,
             .value_name = "JSON",
             .help = "Modes, sizes and levels, as a JSON object or field by field "
                     "(-cc.cudagraph_mode FULL).",
             .apply =
                 [&compilation_config](std::string_view value) {
                   const Json document = parse_json_or_python(value, "--compilation-config");
                   config::merge_compilation_json(
                       compilation_config,
                       document.is_number_integer() ? Json{{"mode", document}} : document);
                 },
             .apply_dotted =
                 [&compilation_config](std::string_view path, std::string_view value) {
                   config::assign_compilation_field(compilation_config,
                                                    fmt::format("{}={}", path, value));
                 },
             .merged = [&compilation_config] { return compilation_config.dump(); },
             .example = "{}"});
}

void add_capture_sizes(OptionTable& table, Json& compilation_config) {
  add_sizes(table,
            compilation_config,
            "cudagraph-capture-sizes",
            "Sizes to capture, in tokens; as -cc.cudagraph_capture_sizes.");
  add_sizes(table,
            compilation_config,
            "cuda-graph-sizes",
            "Older name: one value is the largest size, several are the sizes.");
  table.add({.name = "max-cudagraph-capture-size",
             .group = kGraphs,
             .value_name = "N",
             .help = "Largest size that is captured, as -cc.max_cudagraph_capture_size.",
             .default_text = "min(2 * max-num-seqs, 512)",
             .apply = [&compilation_config](std::string_view value) {
               compilation_config["max_cudagraph_capture_size"] =
                   parse_human_integer("--max-cudagraph-capture-size", value);
             }});
}

void add_levels(OptionTable& table, Json& compilation_config, config::OptimizationLevel& level) {
  table.add({.name = "level",
             .group = kGraphs,
             .value_name = "0..3",
             .help = "Compile level, as -cc.mode: 0 compiles nothing, 1 runs the traced program "
                     "unchanged, 2 compiles the whole program, 3 compiles pieces with all passes.",
             .default_text = "3; 0 with -O0",
             .apply =
                 [&compilation_config](std::string_view value) {
                   compilation_config["mode"] = to_string(parse_level(value));
                 },
             .choices = {"0", "1", "2", "3"}});
  table.add(
      {.name = "optimization-level",
       .short_name = "-O",
       .group = kGraphs,
       .value_name = "0..3",
       .help = "Sets options that are not given: O0 eager, O1 piecewise graphs, O2 and O3 both "
               "kinds. An object or a field (-O.mode=3) goes to -cc.",
       .default_text = "2",
       .apply =
           [&level](std::string_view value) { level = config::parse_optimization_level(value); },
       .choices = {"0", "1", "2", "3"},
       .object_option = "compilation-config"});
}

}  // namespace

void add_compilation_options(OptionTable& table,
                             Json& compilation_config,
                             config::OptimizationLevel& level,
                             std::vector<std::filesystem::path>& extensions) {
  add_compilation_config(table, compilation_config);
  add_capture_sizes(table, compilation_config);
  add_levels(table, compilation_config, level);
  table.add({.name = "extension",
             .group = kGraphs,
             .value_name = "FILE",
             .help =
                 "Shared library with ops, passes and compilers of your own, for splitting_ops, "
                 "inductor_passes and backend of -cc. Its code runs in this process.",
             .apply = [&extensions](std::string_view value) { extensions.emplace_back(value); },
             .takes_several = true});
}

namespace {

// One function or two per heading of --help, in the order of the headings.

void add_model_files(OptionTable& table, api::EngineArgs& args) {
  table.add({.name = "model",
             .group = kModel,
             .value_name = "DIR",
             .help = "Folder with config.json, tokenizer.json and safetensors, a GGUF file, or a "
                     "name that `reprise pull` downloaded: ORG/NAME, ORG/NAME:Q4_K_M; may also be "
                     "given without the option name.",
             .apply = [&args](std::string_view value) { args.model = value; }});
  table.add({.name = "revision",
             .group = kModel,
             .value_name = "NAME",
             .help = "Branch, tag or commit of a model in the Hugging Face cache.",
             .default_text = args.revision,
             .apply = [&args](std::string_view value) { args.revision = value; }});
  table.add({.name = "download-dir",
             .group = kModel,
             .value_name = "DIR",
             .help = "The Hugging Face cache, where a model is looked for by its name.",
             .default_text = "$HF_HUB_CACHE, else $HF_HOME/hub",
             .apply = [&args](std::string_view value) { args.download_dir = value; }});
  table.add({.name = "tokenizer",
             .group = kModel,
             .value_name = "DIR",
             .help = "Folder with another tokenizer, or a GGUF file.",
             .apply = [&args](std::string_view value) { args.tokenizer = value; }});
  table.add_object("hf-overrides",
                   kModel,
                   "Members that replace those of config.json; null removes one.",
                   args.hf_overrides);
  table.add({.name = "chat-template",
             .group = kModel,
             .value_name = "FILE",
             .help = "Jinja template of conversations: a file, or the template itself.",
             .default_text = "the model's",
             .apply = [&args](std::string_view value) { args.chat_template = std::string(value); },
             .example = "{{ messages }}"});
  table.add({.name = "chat-template-content-format",
             .group = kModel,
             .value_name = "FORMAT",
             .help = "Form of contents for the template: string, openai (lists of parts), or auto "
                     "(as they were sent, if the template supports that).",
             .default_text = "auto",
             .apply =
                 [&args](std::string_view value) {
                   args.chat_template_content_format =
                       api::parse_content_format("--chat-template-content-format", value);
                 },
             .choices = {"auto", "string", "openai"}});
  table.add_text(
      "generation-config",
      kModel,
      "SOURCE",
      "Recommended sampling parameters: auto is the model's generation_config.json, vllm "
      "is none, else a folder with that file.",
      args.generation_config);
  table.add_object("override-generation-config",
                   kModel,
                   "Members that replace those of generation_config.json.",
                   args.override_generation_config);
}

// The values of --quantization: first the formats that Reprise quantises to, then the formats that
// a checkpoint may have.
constexpr std::array<std::string_view, 11> kQuantizations = {"none",
                                                             "int8",
                                                             "int4",
                                                             "q8_0",
                                                             "fp8",
                                                             "gptq",
                                                             "awq",
                                                             "compressed-tensors",
                                                             "bitsandbytes",
                                                             "modelopt",
                                                             "modelopt_fp4"};

// Options of how weights are read and kept in memory.
void add_weight_settings(OptionTable& table, api::EngineArgs& args) {
  table.add({.name = "load-format",
             .group = kModel,
             .value_name = "FORMAT",
             .help = "auto, safetensors, or dummy for seeded random weights. vLLM's other names "
                     "for ways to read safetensors and GGUF files mean auto.",
             .default_text = "auto",
             .apply =
                 [&args](std::string_view value) {
                   args.load_format = api::parse_load_format("--load-format", value);
                   if (args.load_format != api::LoadFormat::automatic || value == "auto") return;
                   print_log(LogLevel::warning,
                             "--load-format {} has no effect here: the files of the folder decide, "
                             "as with auto\n",
                             value);
                 },
             .choices = {"auto", "safetensors", "dummy"}});
  table.add({.name = "quantization",
             .short_name = "-q",
             .group = kModel,
             .value_name = "METHOD",
             .help = "int8, int4, q8_0 or fp8: quantises while loading; others: as stored.",
             .default_text = args.quantization,
             .apply = [&args](std::string_view value) { args.quantization = value; },
             .choices = {kQuantizations.begin(), kQuantizations.end()}});
  table.add_switch(
      "expert-counters",
      kModel,
      "Count the tokens of each expert, for /metrics. Each layer with experts then has "
      "one more op.",
      args.expert_counters);
  add_packed_weights_cache(table, kModel, args.packed_weights_cache);
}

void add_model_settings(OptionTable& table, api::EngineArgs& args) {
  table.add_integer("max-logprobs",
                    kModel,
                    "Log-probabilities that a request may ask for per token; -1 is all.",
                    args.max_logprobs);
  table.add({.name = "runner",
             .group = kModel,
             .value_name = "KIND",
             .help = "generate: text; pooling: vectors of texts; auto: as the model folder says.",
             .default_text = "auto",
             .apply = [&args](std::string_view value) { args.runner = std::string(value); },
             .choices = {"auto", "generate", "pooling"}});
  add_weight_settings(table, args);
  table.add_text("dtype", kModel, "TYPE", "auto, bfloat16, float16 or float32.", args.dtype);
  table.add({.name = "max-model-len",
             .group = kModel,
             .value_name = "N",
             .help = "Longest prompt plus answer, in tokens; auto: as many as the KV cache holds.",
             .default_text = "from config.json",
             .apply = [&args](std::string_view value) {
               if (value == "auto" || value == "-1") {
                 args.max_model_len = api::kLongestThatFits;
                 return;
               }
               args.max_model_len = static_cast<int32_t>(
                   std::min<int64_t>(parse_human_integer("--max-model-len", value), INT32_MAX));
             }});
  table.add_switch("allow-long-max-model-len",
                   kModel,
                   "--max-model-len may exceed the positions that the model was made for.",
                   args.allow_long_max_model_len);
  table.add({.name = "seed",
             .group = kModel,
             .value_name = "N",
             .help = "Seeds sampling and dummy weights.",
             .default_text = "0",
             .apply = [&args](std::string_view value) {
               args.seed = static_cast<uint64_t>(parse_human_integer("--seed", value));
             }});
}

// vLLM's short forms of three members. Of two values of one member, the later one counts.
void add_speculative_options(OptionTable& table, api::EngineArgs& args) {
  table.add_object(
      "speculative-config",
      kScheduler,
      "Draft tokens that each step verifies: method ngram, suffix, draft_model, eagle, "
      "eagle3 or mtp, num_speculative_tokens, and the keys of the method; null = none.",
      args.speculative_config);
  struct ShortForm {
    std::string name;
    std::string value_name;
    std::string member;
  };
  for (const ShortForm& form :
       std::to_array<ShortForm>({{"spec-method", "METHOD", "method"},
                                 {"spec-model", "DIR", "model"},
                                 {"spec-tokens", "N", "num_speculative_tokens"}})) {
    table.add({.name = form.name,
               .group = kScheduler,
               .value_name = form.value_name,
               .help = fmt::format("Short for --speculative-config.{}.", form.member),
               .apply =
                   [&args, form](std::string_view value) {
                     Json& member = args.speculative_config[form.member];
                     if (form.value_name == "N") {
                       member = parse_human_integer("--" + form.name, value);
                     } else {
                       member = std::string(value);
                     }
                   },
               .example = form.value_name == "METHOD" ? "ngram" : ""});
  }
}

void add_scheduler_options(OptionTable& table, api::EngineArgs& args) {
  table.add_integer("max-num-seqs", kScheduler, "Most requests in one step.", args.max_num_seqs);
  table.add_integer("max-num-batched-tokens",
                    kScheduler,
                    "Most tokens in one step.",
                    args.max_num_batched_tokens);
  table.add_switch("enable-chunked-prefill",
                   kScheduler,
                   "Cut long prompts to fill steps.",
                   args.enable_chunked_prefill);
  table.add_integer("long-prefill-token-threshold",
                    kScheduler,
                    "Most tokens of one prompt in a step; 0 = as many as fit.",
                    args.long_prefill_token_threshold);
  table.add({.name = "scheduling-policy",
             .group = kScheduler,
             .value_name = "POLICY",
             .help = "fcfs, or priority: requests with a lower `priority` first.",
             .default_text = "fcfs",
             .apply =
                 [&args](std::string_view value) {
                   args.scheduling_policy =
                       api::parse_scheduling_policy("--scheduling-policy", value);
                 },
             .choices = {"fcfs", "priority"}});
  add_speculative_options(table, args);
  table.add_switch("async-scheduling",
                   kScheduler,
                   "Schedule a step while the one before it is computed.",
                   args.async_scheduling);
}

// --preset is applied first: it changes only options that are unset, and any option beside it has
// precedence.
void add_preset(OptionTable& table, api::EngineArgs& args) {
  table.add({.name = "preset",
             .group = kGraphs,
             .value_name = "NAME",
             .help = "The settings of another engine, for options that are not given. atom: ATOM's "
                     "runner, that is -cc.capture_size_rule atom-runner and --max-num-seqs 512.",
             .apply =
                 [&args](std::string_view value) {
                   if (value != "atom") {
                     throw InvalidArgument(fmt::format(
                         "--preset: '{}' is not known; the only preset is atom", value));
                   }
                   args.max_num_seqs = kMaxNumSeqsOfAtom;
                   args.compilation_config["capture_size_rule"] =
                       to_string(cudagraph::CaptureSizeRule::atom_runner);
                 },
             .choices = {"atom"},
             .comes_first = true});
}

void add_graph_options(OptionTable& table, api::EngineArgs& args) {
  add_preset(table, args);
  table.add_switch("enforce-eager", kGraphs, "No graphs and no compiler.", args.enforce_eager);
  table.add({.name = "verify-graphs",
             .group = kGraphs,
             .value_name = "LEVEL",
             .help = "What is proved about each graph before it may be replayed. capture: which "
                     "memory its nodes read and write; strict: also by further captures and dummy "
                     "batches, which take longer. A graph that fails is not used, and the log says "
                     "why.",
             .default_text = args.verify_graphs,
             .apply =
                 [&args](std::string_view value) {
                   args.verify_graphs =
                       to_string(cudagraph::parse_verify_graphs("--verify-graphs", value));
                 },
             .choices = {"off", "capture", "strict"}});
  table.add_switch(
      "programmatic-dependent-launch",
      kGraphs,
      "A kernel may begin while the previous one ends, on GPUs of compute capability 9.",
      args.programmatic_dependent_launch);
  add_attention_options(table, args);
  add_compilation_options(
      table, args.compilation_config, args.optimization_level, args.extension_files);
  table.add({.name = "compile-cache-root",
             .group = kGraphs,
             .value_name = "DIR",
             .help = "Folder for compiled programs; has priority over REPRISE_CACHE_ROOT.",
             .default_text = "~/.cache/reprise/compile_cache",
             .apply = [&args](std::string_view value) {
               if (value.empty()) throw InvalidArgument("--compile-cache-root: needs a folder");
               args.compile_cache_root = value;
             }});
  table.add_switch("disable-compile-cache",
                   kGraphs,
                   "Compile at each start, and save nothing.",
                   args.disable_compile_cache);
  add_graph_trust_options(table, kGraphs, args);
}

void add_device_options(OptionTable& table, api::EngineArgs& args) {
  table.add({.name = "device",
             .group = kDevice,
             .value_name = "DEVICE",
             .help = "auto is cuda if there is a driver and the plug-in, otherwise cpu.",
             .default_text = args.device,
             .apply = [&args](std::string_view value) { args.device = std::string(value); },
             .choices = {"auto", "cpu", "cuda"}});
  add_parallel_options(table, kDevice, args);
  add_cpu_options(table, kDevice, args);
  table.add_switch(
      "tune",
      kDevice,
      "Measure which kernel is fastest for each matrix product, on GPUs, and store the "
      "choices beside the compile cache; --no-tune uses none that are stored.",
      "stored choices are used, none is measured",
      args.tune);
}

}  // namespace

void add_engine_options(OptionTable& table, api::EngineArgs& args) {
  add_model_files(table, args);
  add_model_settings(table, args);
  add_older_options(table, args);
  add_scheduler_options(table, args);
  add_cache_options(table, args);
  add_graph_options(table, args);
  add_lora_options(table, args);
  add_device_options(table, args);
}

std::optional<Configuration> configure_model_command(const OptionTable& table,
                                                     std::span<const std::string> arguments,
                                                     std::string_view command,
                                                     std::filesystem::path& model) {
  std::optional<Configuration> configuration = configure(table, arguments);
  if (!configuration) return std::nullopt;
  const std::span<const std::string> positional = configuration->positional();
  if (positional.size() > 1) {
    throw InvalidArgument(fmt::format("unexpected argument '{}'", positional[1]));
  }
  if (!positional.empty()) model = positional[0];
  if (model.empty()) throw InvalidArgument(fmt::format("{} needs a model folder", command));
  return configuration;
}

bool parse_model_command(const OptionTable& table,
                         std::span<const std::string> arguments,
                         std::string_view command,
                         std::filesystem::path& model) {
  return configure_model_command(table, arguments, command, model).has_value();
}

void require_complete(std::span<const api::RequestOutput> answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].output.finish_reason == "error") {
      throw Error(fmt::format("answer {} failed: {}", i, answers[i].output.error));
    }
  }
}

}  // namespace reprise::cli
