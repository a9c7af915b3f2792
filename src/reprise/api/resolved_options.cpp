#include "reprise/api/resolved_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "reprise/api/model_text.h"
#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/model_directory.h"

namespace reprise::api {
namespace {

weights::LoadedModelConfig load_config(const EngineArgs& args) {
  if (weights::gguf::is_gguf_path(args.model)) {
    return weights::gguf::GgufModel::open(args.model)->config(args.hf_overrides);
  }
  return weights::load_model_config(weights::ModelDirectory(args.model), args.hf_overrides);
}

DType resolve_dtype(std::string_view text) {
  if (text == "auto") return DType::bf16;
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
    throw InvalidArgument(fmt::format(
        "--dtype: '{}' is not supported; use auto, bfloat16, float32 or float16", text));
  }
  return *dtype;
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
  throw InvalidArgument(fmt::format(
      "--cpu-isa: '{}' cannot run here; this machine supports auto{}", text, supported));
}

int32_t resolve_max_model_len(const EngineArgs& args, const weights::ModelConfig& config) {
  const int64_t derived = config.max_position_embeddings;
  if (!args.max_model_len || *args.max_model_len == kLongestThatFits) {
    return static_cast<int32_t>(derived);
  }
  require_positive("--max-model-len", *args.max_model_len);
  if (*args.max_model_len > derived) {
    throw InvalidArgument(
        fmt::format("--max-model-len: {} is more than the {} positions this model was made for "
                    "(max_position_embeddings in config.json)",
                    *args.max_model_len,
                    derived));
  }
  return *args.max_model_len;
}

int32_t resolve_max_logprobs(const EngineArgs& args, const weights::ModelConfig& config) {
  if (args.max_logprobs < -1) {
    throw InvalidArgument(fmt::format("--max-logprobs: {} is not a number of tokens, or -1 for all",
                                      args.max_logprobs));
  }
  const auto all = static_cast<int32_t>(config.vocab_size);
  return args.max_logprobs == -1 ? all : std::min(args.max_logprobs, all);
}

void append(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  warnings.insert(warnings.end(), more.begin(), more.end());
}

void resolve_graphs(const EngineArgs& args, ResolvedOptions& options) {
  options.attention =
      &attention::find_attention_backend(args.attention_backend, args.flash_attn_version);
  config::ParsedCompilationConfig parsed =
      config::parse_compilation_config(args.compilation_config);
  append(options.warnings, parsed.warnings);
  config::ResolutionInputs& inputs = options.graph_inputs;
  inputs.compilation = std::move(parsed.config);
  inputs.optimization_level = args.optimization_level;
  inputs.enforce_eager = args.enforce_eager;
  inputs.attention = {{std::string(options.attention->name), options.attention->support}};
  inputs.max_num_seqs = args.max_num_seqs;
  inputs.max_num_batched_tokens = args.max_num_batched_tokens;
  options.graphs = config::resolve(inputs);
  append(options.warnings, options.graphs.warnings);
}

}  // namespace

void require_positive(std::string_view flag, int64_t value) {
  if (value < 1) throw InvalidArgument(fmt::format("{}: {} is not a positive number", flag, value));
}

ResolvedOptions resolve_options(const EngineArgs& args) {
  ResolvedOptions options;
  require_positive("--max-num-seqs", args.max_num_seqs);
  require_positive("--max-num-batched-tokens", args.max_num_batched_tokens);
  require_positive("--block-size", args.block_size);
  // Reports errors in the options before errors in the model's files.
  resolve_graphs(args, options);
  weights::LoadedModelConfig loaded = load_config(args);
  append(options.warnings, loaded.warnings);
  options.config = std::move(loaded.config);
  options.generation = load_generation_config(args);
  const std::vector<int64_t>& eos = options.generation.eos_token_ids.empty()
                                        ? options.config.eos_token_ids
                                        : options.generation.eos_token_ids;
  options.end_token_ids.assign(eos.begin(), eos.end());
  options.dtype = resolve_dtype(args.dtype);
  options.isa = resolve_isa(args.cpu_isa);
  options.max_model_len = resolve_max_model_len(args, options.config);
  options.max_logprobs = resolve_max_logprobs(args, options.config);
  return options;
}

}  // namespace reprise::api
