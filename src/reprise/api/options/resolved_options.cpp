#include "reprise/api/options/resolved_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/options/encoder_decoder.h"
#include "reprise/api/options/engine_plan.h"
#include "reprise/api/options/extension_options.h"
#include "reprise/api/options/model_text.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/api/options/state_caching.h"
#include "reprise/base/error.h"
#include "reprise/compile/model/extensions.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/verify/verify_graphs.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/parallel/communicator.h"
#include "reprise/program/split.h"
#include "reprise/runner/model_attention.h"
#include "reprise/weights/config/pooling_config.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/sources/rank_weights.h"

namespace reprise::api {
namespace {

// As in vLLM. A slot of this rank is as large as a small weight.
constexpr int32_t kLargestMaxLoraRank = 512;

DType resolve_dtype(std::string_view text) {
  if (text == "auto") return DType::bf16;
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
    throw InvalidArgument(fmt::format(
        "--dtype: '{}' is not supported; use auto, bfloat16, float32 or float16 (smaller weights: "
        "--quantization)",
        text));
  }
  return *dtype;
}

// A cache has the model's element type, or eight bits.
void require_cache_of_model(const kv_cache::CacheDType& cache, DType model) {
  if (!cache.dtype || cache.is_quantized() || *cache.dtype == model) return;
  throw InvalidArgument(
      fmt::format("--kv-cache-dtype: {} needs --dtype {}, but the model runs in {}; "
                  "use auto, or a type of eight bits",
                  cache.name,
                  cache.name,
                  dtype_name(model)));
}

kernels::Isa resolve_isa(std::string_view text) {
  const device::CpuFeatures features = device::detect_cpu_features();
  if (text == "auto") return kernels::best_isa(features);
  const std::optional<kernels::Isa> isa = kernels::parse_isa(text);
  if (isa && kernels::is_supported(*isa, features)) return *isa;
  std::string supported;
  for (kernels::Isa candidate : kernels::supported_isas(features)) {
    supported += fmt::format(" {}", kernels::isa_name(candidate));
  }
  throw InvalidArgument(
      fmt::format("--cpu-isa: '{}' cannot run here: {}; this machine supports auto{}",
                  text,
                  isa ? kernels::why_unsupported(*isa, features) : "there is no such set",
                  supported));
}

// Frequencies of the type dynamic follow from the length, so a model that was not asked for more
// than its own positions keeps them.
int64_t default_max_model_len(const weights::ModelConfig& config) {
  const bool is_dynamic = config.rope.type == weights::RopeType::dynamic;
  const int64_t length =
      is_dynamic ? config.max_position_embeddings : config.derived_max_model_len();
  const int64_t of_texts = config.pooling ? config.pooling->max_text_length : 0;
  return of_texts == 0 ? length : std::min(length, of_texts);
}

int32_t resolve_max_model_len(const EngineArgs& args,
                              const weights::ModelConfig& config,
                              std::vector<std::string>& warnings) {
  if (!args.max_model_len || *args.max_model_len == kLongestThatFits) {
    return static_cast<int32_t>(default_max_model_len(config));
  }
  const int32_t asked = *args.max_model_len;
  require_positive("--max-model-len", asked);
  const int64_t derived = config.derived_max_model_len();
  if (asked <= derived) return asked;
  const std::string fact = fmt::format(
      "--max-model-len: {} is more than the {} positions this model was made for "
      "(max_position_embeddings in config.json, and the factor of rope_scaling)",
      asked,
      derived);
  if (config.has_learned_positions || config.num_token_types > 0) {
    throw InvalidArgument(fact + "; it has no embedding of later positions");
  }
  if (asked > weights::kMaxPositions) {
    throw InvalidArgument(fmt::format(
        "{}; at most {} positions are supported", fact, int64_t{weights::kMaxPositions}));
  }
  if (!args.allow_long_max_model_len) {
    throw InvalidArgument(fact +
                          "; for a longer context override rope_scaling (--hf-overrides), or set "
                          "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 to use positions it was not trained on");
  }
  warnings.push_back(fact + "; what it writes there may make no sense");
  return asked;
}

int32_t resolve_max_logprobs(const EngineArgs& args, const weights::ModelConfig& config) {
  if (args.max_logprobs < -1) {
    throw InvalidArgument(fmt::format("--max-logprobs: {} is not a number of tokens, or -1 for all",
                                      args.max_logprobs));
  }
  const auto all = static_cast<int32_t>(config.vocab_size);
  return args.max_logprobs == -1 ? all : std::min(args.max_logprobs, all);
}

void check_lora_options(const EngineArgs& args) {
  if (!args.enable_lora) {
    if (args.lora_modules.empty()) return;
    throw InvalidArgument(
        fmt::format("--lora-modules: '{}' needs --enable-lora", args.lora_modules.front().name));
  }
  require_positive("--max-loras", args.max_loras);
  require_positive("--max-lora-rank", args.max_lora_rank);
  if (args.max_lora_rank > kLargestMaxLoraRank) {
    throw InvalidArgument(fmt::format("--max-lora-rank: {} is more than the {} that are supported",
                                      args.max_lora_rank,
                                      kLargestMaxLoraRank));
  }
  if (args.max_cpu_loras.value_or(args.max_loras) < args.max_loras) {
    throw InvalidArgument(fmt::format(
        "--max-cpu-loras: {} is less than --max-loras {}", *args.max_cpu_loras, args.max_loras));
  }
}

// Whether the model generates or makes vectors. Source: vLLM's option --runner, whose `auto` knows
// folders of Sentence Transformers.
std::optional<weights::PoolingConfig> resolve_pooling(const EngineArgs& args,
                                                      const ModelFiles& files,
                                                      const weights::ModelConfig& config,
                                                      std::vector<std::string>& warnings) {
  if (config.classifier && args.runner != "generate") {
    return weights::PoolingConfig{
        .type = config.classifier->pooling.value_or(weights::default_pooling_config(config).type),
        .normalizes = false};
  }
  if (args.runner == "generate") {
    if (config.classifier) {
      throw InvalidArgument(
          "--runner: generate: the model is a classifier, which gives scores of labels; use auto "
          "or pooling");
    }
    if (!config.is_encoder && !config.is_headless) return std::nullopt;
    throw InvalidArgument(
        fmt::format("--runner: generate: {} {}, which makes vectors of texts; use auto or pooling",
                    weights::architecture_name(config.architecture),
                    config.is_encoder ? "is an encoder" : "is given as a class without lm_head"));
  }
  std::optional<weights::PoolingConfig> stored = files.pooling_config(warnings);
  const bool pools =
      args.runner == "pooling" || config.is_encoder || config.is_headless || stored.has_value();
  if (!pools) return std::nullopt;
  if (!stored) return weights::default_pooling_config(config);
  if (!stored->dense.empty()) {
    weights::require_dense_sizes(*stored, config.hidden_size, weights::ModelDirectory(args.model));
  }
  return stored;
}

// Refuses backends whose sums depend on the batch, if batch invariance is asked for.
void require_invariant_attention(const EngineArgs& args, const attention::BackendInfo& backend) {
  if (args.batch_invariant != true || backend.create != attention::create_planned_backend) return;
  throw InvalidArgument(fmt::format(
      "--batch-invariant: the attention backend {} adds the parts of long contexts in an order "
      "that "
      "depends on the batch; choose another --attention-backend, or leave out one of both options",
      backend.name));
}

// The inputs of the resolution. `model`: nullptr if its configuration is not known.
void set_graph_inputs(const EngineArgs& args,
                      const weights::ModelConfig* model,
                      ResolvedOptions& options) {
  options.warnings.clear();
  std::optional<attention::AttentionKind> kind;
  if (model != nullptr) kind = runner::attention_kind_of(*model);
  options.attention =
      &attention::find_attention_backend(args.attention_backend, args.flash_attn_version, kind);
  options.recurrent = nullptr;
  options.kv_cache_dtype = kv_cache::find_cache_dtype(args.kv_cache_dtype);
  attention::require_cache_dtype(*options.attention, options.kv_cache_dtype);
  require_invariant_attention(args, *options.attention);
  config::ResolutionInputs& inputs = options.graph_inputs;
  inputs.extensions = extension_names(args);
  config::ParsedCompilationConfig parsed =
      config::parse_compilation_config(args.compilation_config, inputs.extensions);
  append_warnings(options.warnings, parsed.warnings);
  inputs.compilation = std::move(parsed.config);
  inputs.optimization_level = args.optimization_level;
  inputs.enforce_eager = args.enforce_eager;
  inputs.pooling = options.config.pooling.has_value();
  inputs.encoder_decoder = options.config.encoder.has_value();
  inputs.attention = {{.backend = std::string(options.attention->name),
                       .support = options.attention->support,
                       .full_graph_sets = options.attention->full_graph_sets}};
  if (model != nullptr) {
    const std::vector<attention::LayerBackend> backends =
        runner::layer_backends(*model, options.attention);
    inputs.attention = runner::attention_groups(backends);
    if (backends.size() > 1) options.recurrent = backends.back().backend;
  }
  inputs.max_num_seqs = args.max_num_seqs;
  inputs.max_num_batched_tokens = args.max_num_batched_tokens;
  inputs.tensor_parallel_size = args.tensor_parallel_size;
  inputs.num_speculative_tokens = options.num_speculative_tokens();
  inputs.scheduled_drafts = speculative::scheduled_drafts(options.draft_schedule());
  if (args.enable_lora) {
    inputs.lora = {.max_loras = args.max_loras,
                   .specialize_active_lora = args.specialize_active_lora};
  }
}

/// Refuses names that no op has now, and not when the model is compiled.
void check_splitting_ops(const EngineArgs& args, const std::vector<std::string>& names) {
  (void)program::parse_splitting_ops(
      names, args.extensions ? args.extensions->ops() : std::vector<const CustomOp*>{});
}

void resolve_graphs(const EngineArgs& args,
                    const weights::ModelConfig* model,
                    ResolvedOptions& options) {
  set_graph_inputs(args, model, options);
  options.graphs = config::resolve(options.graph_inputs);
  append_warnings(options.warnings, options.graphs.warnings);
  check_splitting_ops(args, options.graphs.splitting_ops);
  // The plan of the keys finds contradictions between sizes. Weights are not loaded for it.
  cudagraph::CudagraphDispatcher planner;
  planner.initialize_cudagraph_keys(
      config::dispatcher_options(options.graph_inputs, options.graphs));
}

// What the states of recurrent layers cannot do.
void check_recurrent_options(const ResolvedOptions& options) {
  const std::string_view name = weights::architecture_name(options.config.architecture);
  const std::vector<std::string>& ops = options.graphs.splitting_ops;
  const bool is_split = std::ranges::any_of(ops, [](const std::string& op) {
    return op.find("mamba_mixer") != std::string::npos || op.find("gdn") != std::string::npos ||
           op == "selective_state_update" || op == "gated_delta_rule" || op == "causal_conv1d";
  });
  if (options.graphs.piecewise_available && !is_split) {
    throw InvalidArgument(
        fmt::format("splitting_ops leaves the recurrent layers of {} inside the pieces, which no "
                    "PIECEWISE graph can hold; add vllm::mamba_mixer2",
                    name));
  }
}

void resolve_speculation(const EngineArgs& args, ResolvedOptions& options) {
  options.async_scheduling = args.async_scheduling;
  if (args.speculative_config.empty()) return;
  options.speculative_config = speculative::parse_speculative_config(args.speculative_config);
  options.async_scheduling = false;
}

void warn_of_speculation(const EngineArgs& args, ResolvedOptions& options) {
  if (options.async_scheduling == args.async_scheduling) return;
  options.warnings.push_back(
      fmt::format("Async scheduling is not supported with {} speculative decoding and will be "
                  "disabled: the drafts of a step follow from the tokens of the step before",
                  to_string(options.speculative_config->method)));
}

void warn_of_ignored_generation_options(ResolvedOptions& options) {
  if (options.generation.ignored.empty()) return;
  options.warnings.push_back(
      fmt::format("the generation config's {} {} not used; answers may differ from those of "
                  "Transformers",
                  fmt::join(options.generation.ignored, ", "),
                  options.generation.ignored.size() == 1 ? "is" : "are"));
}

// As in vLLM, `auto` is fp8 for a checkpoint that was calibrated for a float8 cache.
void choose_cache_of_checkpoint(ResolvedOptions& options) {
  const kv_cache::CacheDType& fp8 = kv_cache::find_cache_dtype("fp8");
  const bool is_open = options.kv_cache_dtype.name == "auto";
  if (!is_open || !options.config.quantization.has_float8_cache) return;
  if (attention::takes_cache_dtype(*options.attention, fp8)) options.kv_cache_dtype = fp8;
}

void check_sizes(const EngineArgs& args) {
  require_positive("--max-num-seqs", args.max_num_seqs);
  require_positive("--max-num-batched-tokens", args.max_num_batched_tokens);
  require_positive("--block-size", args.block_size);
  require_positive("--tensor-parallel-size", args.tensor_parallel_size);
  require_positive("--pipeline-parallel-size", args.pipeline_parallel_size);
  require_positive("--data-parallel-size", args.data_parallel_size);
  require_positive("--distributed-timeout-seconds", args.distributed_timeout_seconds);
  (void)cudagraph::parse_verify_graphs("--verify-graphs", args.verify_graphs);
}

}  // namespace

std::optional<weights::ClassifierConfig> find_classifier(const EngineArgs& args,
                                                         const tokenizer::Tokenizer& tokenizer,
                                                         ResolvedOptions& options) {
  if (!options.config.classifier) return std::nullopt;
  weights::ClassifierConfig& classifier = *options.config.classifier;
  for (size_t i = 0; i < classifier.from_tokens.size(); ++i) {
    const std::optional<int32_t> id = tokenizer.token_to_id(classifier.from_tokens[i]);
    if (!id || *id >= options.config.vocab_size) {
      throw FileError(
          "E_CONFIG",
          args.model.string(),
          "classifier_from_token",
          fmt::format("'{}' is not a token of the model's vocabulary", classifier.from_tokens[i]));
    }
    classifier.from_token_ids.at(i) = *id;
  }
  classifier.uses_chat_template = args.chat_template.has_value();
  options.rank_config.classifier = classifier;
  return classifier;
}

void append_warnings(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  warnings.insert(warnings.end(), more.begin(), more.end());
}

void require_positive(std::string_view flag, int64_t value) {
  if (value < 1) throw InvalidArgument(fmt::format("{}: {} is not a positive number", flag, value));
}

ResolvedOptions resolve_options(const EngineArgs& args, std::shared_ptr<const ModelFiles> files) {
  ResolvedOptions options;
  check_sizes(args);
  check_lora_options(args);
  // Reports errors in the options before errors in the model's files.
  resolve_speculation(args, options);
  resolve_graphs(args, nullptr, options);
  options.files = open_model_files(args.model, std::move(files));
  weights::LoadedModelConfig loaded = options.files->config(args.hf_overrides);
  options.config = std::move(loaded.config);
  options.config.pooling = resolve_pooling(args, *options.files, options.config, loaded.warnings);
  const bool is_recurrent = options.config.num_recurrent_layers() > 0;
  resolve_graphs(args, &options.config, options);
  if (is_recurrent) check_recurrent_options(options);
  check_encoder_decoder(args, options);
  options.caches_prefixes = caches_prefixes(args, options.config, options.warnings);
  append_warnings(options.warnings, loaded.warnings);
  choose_cache_of_checkpoint(options);
  warn_of_speculation(args, options);
  options.generation = load_generation_config(args, options.files);
  warn_of_ignored_generation_options(options);
  const std::vector<int64_t>& eos = options.generation.eos_token_ids.empty()
                                        ? options.config.eos_token_ids
                                        : options.generation.eos_token_ids;
  options.end_token_ids.assign(eos.begin(), eos.end());
  options.dtype = resolve_dtype(args.dtype);
  require_cache_of_model(options.kv_cache_dtype, options.dtype);
  options.isa = resolve_isa(args.cpu_isa);
  options.max_model_len = resolve_max_model_len(args, options.config, options.warnings);
  options.max_logprobs = resolve_max_logprobs(args, options.config);
  check_rank_options(args, options.graphs);
  options.rank_config = weights::config_of_rank(options.config, rank_of_model(args));
  warn_of_ranks(args, options);
  return options;
}

config::ResolutionInputs graph_inputs_without_model(const EngineArgs& args,
                                                    std::vector<std::string>& warnings) {
  ResolvedOptions options;
  check_sizes(args);
  check_lora_options(args);
  resolve_speculation(args, options);
  set_graph_inputs(args, nullptr, options);
  const std::optional<std::vector<std::string>>& names =
      options.graph_inputs.compilation.splitting_ops;
  if (names) check_splitting_ops(args, *names);
  append_warnings(warnings, options.warnings);
  return std::move(options.graph_inputs);
}

}  // namespace reprise::api
